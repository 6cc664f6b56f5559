package dedup

import (
	"time"
)

// TimedKey puts a time in front of a derived key, so that new records fall into
// neighbouring pages of the index as those of [NewKey] do, and not all over it.
//
//	key, err := dedup.KeyFromToolCall(session.ID, turn, callID)
//	key, err = dedup.TimedKey(session.StartedAt, key)
//
// The time must be the same on every try: when the session, plan or job began, as
// saved with it, and never the time of the try, with which every retry would run
// again. It counts in milliseconds. A key with it and the same key without are
// two.
//
// It is worth it where a table grows large: see docs/performance.md. The time
// takes 14 bytes of the 255 that a key may have. An at before 1970 or after the
// year 3084, the zero time above all, an empty key and one that is too long are
// an *[InvalidCallError].
func TimedKey(at time.Time, key string) (string, error) {
	ms := at.UnixMilli()
	switch {
	case at.IsZero():
		return "", invalid("At", "is the zero time; give the time at which the session, plan or job began, as saved with it")
	case ms < 0 || ms > maxTimedKey:
		return "", invalid("At", "is %s; it must be between 1970 and 3084", at.UTC().Format(time.RFC3339))
	}
	if err := validateName("Key", key); err != nil {
		return "", err
	}
	timed := timedKey(ms, key)
	return timed, validateName("Key", timed)
}

// timedKey puts a time in milliseconds in front of a key.
func timedKey(ms int64, key string) string { return timedPrefix + base32hex(ms) + "_" + key }

const (
	timedPrefix = "ts1_"
	// Nine digits of five bits.
	maxTimedKey = 1<<45 - 1
)

// base32hex writes a number in nine digits that sort as it does.
func base32hex(n int64) string {
	const digits = "0123456789abcdefghijklmnopqrstuv" // RFC 4648, section 7, in lower case
	var text [9]byte
	for i := range text {
		text[len(text)-1-i] = digits[n>>(5*i)&31]
	}
	return string(text[:])
}
