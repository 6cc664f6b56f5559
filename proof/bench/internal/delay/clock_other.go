//go:build !linux

package delay

import "time"

// sleepUntil waits with Go's timers, which may be late by a millisecond. The benchmark therefore
// shows the measured round trip beside the requested delay.
func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }
