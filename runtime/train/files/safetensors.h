// SPDX-License-Identifier: Apache-2.0
// The format of safetensors files, between safetensors_read.c and safetensors_write.c.
//
//     N, 8 bytes, little endian     N bytes of JSON, padded with spaces     data
//     {"__metadata__": {"step": "200"},
//      "W": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}
//
// Offsets count from the first byte behind the JSON. The tensors fill the rest of the file without
// holes. https://github.com/huggingface/safetensors
#ifndef ATT_SAFETENSORS_H
#define ATT_SAFETENSORS_H

enum { SAFETENSORS_PREFIX = 8, SAFETENSORS_ALIGN = 8, SAFETENSORS_HEADER_MOST = 100000000 };

#define SAFETENSORS_NOTES "__metadata__"

#endif
