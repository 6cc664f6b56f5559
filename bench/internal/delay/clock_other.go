//go:build !linux

package delay

import "time"

// Precise is true where a wait ends within microseconds of its time. Here it is
// Go's timers that wait, which may be late by a millisecond; so the benchmark
// shows the round trip that it has measured beside the delay that was asked for.
const Precise = false

// An instant is a time of Go's monotonic clock.
type instant time.Time

func (i instant) add(d time.Duration) instant { return instant(time.Time(i).Add(d)) }

func now() instant { return instant(time.Now()) }

func sleepUntil(due instant) error {
	<-time.After(time.Until(time.Time(due)))
	return nil
}
