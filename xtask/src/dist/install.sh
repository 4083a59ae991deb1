# Installs the Debian package in a root directory, starts its server, installs the package again,
# removes and purges it.
#
# Usage: unshare --mount --net sh install.sh ROOT PACKAGE USER:GROUP START [NAME=VALUE...]
set -eu
root=$1 package=$2 user=$3 start=$4
shift 4

expect() {
    "$@" || { echo "expected: $*" >&2; exit 1; }
}
installer() {
    dpkg --root="$root" --log="$root/var/log/dpkg.log" "$@"
}

key=$root/etc/knowledge/sealing.key
settings=$root/etc/knowledge/knowledge.toml
data=$root/var/lib/knowledge/data
credential=$root/run/credentials/knowledge.service/sealing-key

: > "$root/dev/urandom"
mount --bind /dev/urandom "$root/dev/urandom"

# In place of systemd, which would not run here: it records its arguments, and fails to restart.
calls=$root/systemctl-calls
mkdir -p "$root/run/systemd/system"
cat > "$root/usr/bin/systemctl" << 'END'
#!/bin/sh
echo "$*" >> /systemctl-calls
[ "$1" != try-restart ]
END
chmod 0755 "$root/usr/bin/systemctl"

installer --install "$package"
expect [ "$(stat --format=%a:%u "$key")" = 600:0 ]
expect [ "$(base64 --decode "$key" | wc -c)" = 32 ]
expect [ "$(stat --format=%a:%u "$root/usr/bin/knowledge")" = 755:0 ]
cp "$key" "$root/key-copy"

# Without the targets of the system, the unit's dependencies are missing. An unknown key is only a
# message.
cp /usr/lib/systemd/system/*.target "$root/usr/lib/systemd/system"
messages=$(systemd-analyze verify --root="$root" knowledge.service 2>&1) || :
expect [ -z "$messages" ]

# As systemd does.
install -d -m 0700 -o "${user%:*}" -g "${user#*:}" "$root/var/lib/knowledge"
install -D -m 0400 -o "${user%:*}" "$key" "$credential"
sh "$start" "$root" "$user" "$@"

echo "# changed" >> "$settings"
installer --install "$package"
expect cmp "$key" "$root/key-copy"
expect grep -q "^# changed" "$settings"

installer --remove knowledge
expect [ ! -e "$root/usr/bin/knowledge" ]
expect [ -e "$settings" ]
installer --purge knowledge
expect [ ! -e "$settings" ]
expect cmp "$key" "$root/key-copy"
expect [ -d "$data" ]

restart="daemon-reload
try-restart knowledge.service"
expect [ "$(cat "$calls")" = "$restart
$restart
disable --now knowledge.service" ]
