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
// an *[InvalidError].
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
	timed := string(appendTime(nil, ms)) + key
	return timed, validateName("Key", timed)
}

// appendTime writes what stands in front of a timed key: the time in milliseconds, as
// nine digits that sort as it does.
func appendTime(b []byte, ms int64) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuv" // RFC 4648, section 7, in lower case
	b = append(b, timedPrefix...)
	for i := 8; i >= 0; i-- {
		b = append(b, digits[ms>>(5*i)&31])
	}
	return append(b, '_')
}

const (
	timedPrefix = "ts1_"
	// Nine digits of five bits.
	maxTimedKey = 1<<45 - 1
)
