// SPDX-License-Identifier: Apache-2.0
// Tables on standard output: every column is as wide as its widest cell.
#include "driver/driver.h"

#include <string.h>

Table table_open(Arena *arena, const char *columns) {
    return (Table){.arena = arena, .columns = columns, .n_columns = (uint32_t)strlen(columns)};
}

void table_cell(Table *table, const char *format, ...) {
    Text text = {.arena = table->arena};
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    vec_push(table->arena, &table->cells, text.at);
}

void table_seconds(Table *table, double seconds) {
    enum { LONG = 100 };
    if (seconds < LONG)
        table_cell(table, "%.3f ms", 1e3 * seconds);
    else
        table_cell(table, "%.4g s", seconds);
}

void table_print(const Table *table) {
    int *widths = arena_array(table->arena, int, table->n_columns);
    for (uint32_t i = 0; i < table->cells.count; i++) {
        int width = (int)strlen(table->cells.at[i]);
        int *widest = &widths[i % table->n_columns];
        *widest = width > *widest ? width : *widest;
    }
    for (uint32_t i = 0; i < table->cells.count; i++) {
        uint32_t column = i % table->n_columns;
        bool last = column + 1 == table->n_columns, left = table->columns[column] == 'l';
        int width = last && left ? 0 : widths[column]; // no blanks at the end of a line
        printf("%*s%s", left ? -width : width, table->cells.at[i], last ? "\n" : "  ");
    }
}
