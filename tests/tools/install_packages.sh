#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that attc is built and tested with, when any is missing.
# usage: install_packages.sh LLVM_VERSION
set -eu
llvm=$1
packages="gcc g++ make binutils flex bison git python3 python3-venv llvm-$llvm-dev llvm-$llvm-tools
clang-$llvm libclang-rt-$llvm-dev libxxhash-dev libjansson-dev libcmocka-dev libsqlite3-dev libzstd-dev
zlib1g-dev"
missing=""
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
root=""
[ "$(id -u)" = 0 ] || root=sudo
$root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing
