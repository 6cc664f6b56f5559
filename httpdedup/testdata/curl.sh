#!/usr/bin/env bash
# Tries httpdedup with curl, as a client of another language would: sends requests to the
# shop of demo_test.go, whose URL is the argument, and compares the answers. Ends with 1 on the
# first answer that is another one. TestCurl runs it.
set -euo pipefail
url=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# call METHOD PATH [curl's arguments] sends a request of acme's and keeps the
# answer's head and body.
call() {
  local method=$1 path=$2
  shift 2
  curl --silent --show-error --noproxy '*' --max-time 30 --request "$method" --dump-header "$folder/head" --output "$folder/body" \
    --header "Authorization: Bearer ${token:-acme-token}" --header "Content-Type: application/json" "$@" "$url$path"
  tr -d '\r' <"$folder/head" >"$folder/lines"
}

checks=0
failed() {
  echo "curl.sh: $1" >&2
  cat "$folder/lines" "$folder/body" >&2
  exit 1
}
# status N: the answer has the status.
status() {
  checks=$((checks + 1))
  local got
  got=$(awk '/^HTTP/ { code = $2 } END { print code }' "$folder/lines")
  [ "$got" = "$1" ] || failed "status $got instead of $1"
}
# head LINE, nohead NAME: the answer has the header, or not.
head() {
  checks=$((checks + 1))
  grep -Fixq -- "$1" "$folder/lines" || failed "no header '$1'"
}
nohead() {
  checks=$((checks + 1))
  ! grep -iq -- "^$1:" "$folder/lines" || failed "a header '$1'"
}
# body TEXT: the answer's body is this; part TEXT: it holds this.
body() {
  checks=$((checks + 1))
  [ "$(cat "$folder/body")" = "$1" ] || failed "the body is not '$1'"
}
part() {
  checks=$((checks + 1))
  grep -Fq -- "$1" "$folder/body" || failed "the body lacks '$1'"
}
# problem STATUS TYPE
problem() {
  status "$1"
  head "Content-Type: application/problem+json"
  part "problems.md#$2\""
}

echo "== an order, and its answer again"
call POST /orders -H 'Idempotency-Key: "k1"' -d '{"item": "lamp"}'
status 201; head "Location: /orders/1"; body '{"id":1}'; nohead Idempotency-Replayed
for again in '{"item": "lamp"}' ' { "\u0069tem" : "lamp" } '; do
  for key in '"k1"' k1 '"k1"; try=2'; do
    call POST /orders -H "Idempotency-Key: $key" -d "$again"
    status 201; head "Location: /orders/1"; body '{"id":1}'; head "Idempotency-Replayed: true"
  done
done

echo "== another order under the same key"
call POST /orders -H 'Idempotency-Key: "k1"' -d '{"item": "chair"}'
problem 422 key-reused; part '"changed":["body.item"]'

echo "== another client's key of the same name"
token=globex-token call POST /orders -H 'Idempotency-Key: "k1"' -d '{"item": "chair"}'
status 201; body '{"id":2}'; nohead Idempotency-Replayed
call GET /orders
status 200; body '{"count":2}'

echo "== requests that are refused"
call POST /orders -d '{"item": "lamp"}'; problem 400 missing-key
call POST /orders -H 'Idempotency-Key: "k2' -d '{"item": "lamp"}'; problem 400 invalid-key
call POST /orders -H 'Idempotency-Key: "k2"' -H 'Idempotency-Key: "k3"' -d '{"item": "lamp"}'; problem 400 invalid-key
call POST /orders -H 'Idempotency-Key: "k2"' -d '{"item": "lamp"'; problem 400 invalid-body
printf '{"item": "%020000d"}' 0 >"$folder/large"
call POST /orders -H 'Idempotency-Key: "k2"' -d "@$folder/large"; problem 413 body-too-large
token=stranger call POST /orders -H 'Idempotency-Key: "k1"' -d '{"item": "lamp"}'
problem 401 no-scope; head 'WWW-Authenticate: Bearer realm="shop"'

echo "== answers that are kept, and not"
call POST /orders/9/cancel -H 'Idempotency-Key: "k4"'; status 404
call POST /orders/9/cancel -H 'Idempotency-Key: "k4"'; status 404; nohead Idempotency-Replayed
call POST /orders/1/cancel -H 'Idempotency-Key: "k4"'; status 204; nohead Idempotency-Replayed
call POST /orders/1/cancel -H 'Idempotency-Key: "k4"'; status 204; head "Idempotency-Replayed: true"
call POST /orders/2/cancel -H 'Idempotency-Key: "k4"'; problem 422 key-reused; part '"changed":["Path"]'
call POST /orders/1/cancel -H 'Idempotency-Key: "k5"'; status 409; body 'cancelled already'; nohead Idempotency-Replayed
call POST /orders/1/cancel -H 'Idempotency-Key: "k5"'; status 409; body 'cancelled already'; head "Idempotency-Replayed: true"

echo "== a request that is running"
curl --silent --noproxy '*' --max-time 30 -o "$folder/export" -H 'Authorization: Bearer acme-token' -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: "k6"' -d '{"seconds": 3}' "$url/exports" &
first=$!
until call GET /operations/export/k6 && grep -q '"running"' "$folder/body"; do
  kill -0 "$first" 2>/dev/null || failed "never running"
done
status 200; head "Retry-After: 1"
call POST /exports -H 'Idempotency-Key: "k6"' -d '{"seconds": 3}'
problem 409 in-flight; head "Retry-After: 1"
wait "$first"
[ "$(cat "$folder/export")" = '{"rows":3}' ] || failed "the first one's answer"
call POST /exports -H 'Idempotency-Key: "k6"' -d '{"seconds": 3}'
status 200; body '{"rows":3}'; head "Idempotency-Replayed: true"

echo "== what became of them"
call GET /operations/export/k6; status 200; part '"state":"done"'; part '"body":{"rows":3}'
call GET /operations/cancel_order/k5; status 200; part '"state":"refused"'; part '"status":409'
call GET /operations/export/k7; problem 404 unknown-operation; part '"state":"unknown"'
token=globex-token call GET /operations/export/k6; problem 404 unknown-operation

echo "ok: $checks checks"
