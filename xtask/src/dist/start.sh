# Starts the server in a root directory, as an unprivileged user and with a network of its own, waits
# until it is healthy, and stops it.
#
# Usage: unshare --net sh start.sh ROOT USER:GROUP [NAME=VALUE...]
set -eu
root=$1 user=$2
shift 2

path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
tries_max=120

ip link set lo up
# Below, chroot looks up the program in the new root.
env -i PATH=$path "$@" chroot --userspec="$user" "$root" knowledge config check
env -i PATH=$path "$@" chroot --userspec="$user" "$root" knowledge serve &
server=$!
trap 'kill -KILL $server 2> /dev/null || :' EXIT

tries=0
until message=$(env -i PATH=$path "$@" chroot --userspec="$user" "$root" knowledge healthcheck 2>&1); do
    kill -0 $server || { echo "the server has ended" >&2; exit 1; }
    tries=$((tries + 1))
    [ $tries -lt $tries_max ] || { echo "the server does not get healthy: $message" >&2; exit 1; }
    sleep 0.5
done
kill -TERM $server
wait $server
trap - EXIT
[ -d "$root/var/lib/knowledge/data" ]
