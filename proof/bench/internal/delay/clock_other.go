//go:build !linux

package delay

import "time"

// sleepUntil waits with Go's timers, which may be late by a millisecond; so the benchmark
// shows the round trip that it has measured beside the delay that was asked for.
func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }
