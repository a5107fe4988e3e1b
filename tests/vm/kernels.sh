#!/usr/bin/env bash
# Fetches Debian kernels for the tests on other kernels (`cargo xtask vm`).
#   kernels.sh DIR KERNEL…      KERNEL: the beginning of a version (6.1, 6.12), or "newest"
#   -> DIR/KERNEL/{vmlinuz,config,package,dummy.ko}        dummy.ko: a module that is there to be probed
# The mirror and how to reach it are those of this machine's own apt; nothing is installed. What is there
# already stays, except that the newest kernel is looked for again after a week. Two of these at a time wait
# for one another. Ends with 3 where this machine has no Debian mirror to ask.
set -euo pipefail
dir=$(realpath -m "${1:?usage: kernels.sh DIR KERNEL…}")
shift
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9

missing=()
for kernel in "$@"; do
  find "$dir/$kernel/package" -mtime -7 2>/dev/null | grep -q . && continue
  [ "$kernel" != newest ] && [ -e "$dir/$kernel/package" ] && continue
  missing+=("$kernel")
done
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "kernels.sh: no apt-get here to fetch kernels with" >&2; exit 3; }
mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true; } |
  grep -v '^ *#' | grep -oE '(https?|file)://[^ ]*/debian/?( |$)' | head -n 1 | tr -d ' ') || true
[ -n "$mirror" ] || { echo "kernels.sh: no Debian mirror in this machine's apt configuration" >&2; exit 3; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
keys=
for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
  [ -e "$keyring" ] && keys="[signed-by=$keyring] " && break
done
for suite in bookworm trixie sid; do echo "deb $keys$mirror $suite main"; done >"$work/sources.list"
apt=(-oDir::Etc::SourceList="$work/sources.list" -oDir::Etc::SourceParts=/dev/null -oDir::State::Lists="$work/lists"
  -oDir::Cache="$work/cache" -oAPT::Sandbox::User=root -oAcquire::Languages=none -oAcquire::Retries=3)
apt-get "${apt[@]}" -qq update
apt-cache "${apt[@]}" madison linux-image-cloud-amd64 | awk '{print $3}' | sort -Vu >"$work/versions"

for kernel in "${missing[@]}"; do
  case $kernel in
    newest) version=$(tail -n 1 "$work/versions") ;;
    *) version=$(grep -F "$kernel." "$work/versions" | grep "^$kernel\." | tail -n 1) || true ;;
  esac
  [ -n "$version" ] || { echo "kernels.sh: no kernel $kernel on this machine's Debian mirror" >&2; exit 1; }
  # The package of this very version that the general one asks for.
  package=$(apt-cache "${apt[@]}" show "linux-image-cloud-amd64=$version" | grep -oE 'linux-image-[0-9][^ ,]*' | head -n 1)
  if [ "$(cat "$dir/$kernel/package" 2>/dev/null)" = "$package" ]; then
    touch "$dir/$kernel/package"
    continue
  fi
  echo "$kernel: $package"
  rm -rf "$work/unpacked" && mkdir "$work/unpacked"
  (
    cd "$work/unpacked"
    apt-get "${apt[@]}" -qq download "$package"
    # Newer packages keep the image and the modules in packages of their own.
    for part in linux-binary linux-modules linux-base; do
      apt-get "${apt[@]}" -qq download "${package/linux-image/$part}" 2>/dev/null || true
    done
    for deb in *.deb; do dpkg -x "$deb" root; done
  )
  fresh=$work/fresh
  rm -rf "$fresh" && mkdir "$fresh"
  find "$work/unpacked/root" -name 'vmlinuz*' -type f | head -n 1 | xargs -I{} cp {} "$fresh/vmlinuz"
  find "$work/unpacked/root" \( -name config -o -name 'config-*' \) -type f | head -n 1 | xargs -I{} cp {} "$fresh/config"
  module=$(find "$work/unpacked/root" -name 'dummy.ko*' -path '*net*' -type f | head -n 1)
  case $module in
    *.xz) xz -dc "$module" >"$fresh/dummy.ko" ;;
    ?*) cp "$module" "$fresh/dummy.ko" ;;
  esac
  [ -s "$fresh/vmlinuz" ] || { echo "kernels.sh: no kernel image in $package" >&2; exit 1; }
  echo "$package" >"$fresh/package"
  rm -rf "${dir:?}/$kernel"
  mv "$fresh" "$dir/$kernel"
done
