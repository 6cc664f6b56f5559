package lab

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// commitFaults are all faults of a COMMIT, with their frequency in a thousand.
var commitFaults = []struct {
	faultproxy.Fault
	permille uint64
}{
	{faultproxy.Fault{Kind: faultproxy.ReplyReset}, 70},
	{faultproxy.Fault{Kind: faultproxy.ReplyClosed}, 70},
	{faultproxy.Fault{Kind: faultproxy.ReplyCut}, 70},
	{faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Delay: 30 * time.Millisecond}, 20}, // beyond the next try of a twin
	{faultproxy.Fault{Kind: faultproxy.Blackhole}, 4},
	{faultproxy.Fault{Kind: faultproxy.Dropped}, 60},
	{faultproxy.Fault{Kind: faultproxy.CutBeforeSync}, 40},
	{faultproxy.Fault{Kind: faultproxy.Delayed, Delay: 10 * time.Millisecond}, 20}, // the COMMIT comes late
	{faultproxy.Fault{Kind: faultproxy.Hold, Delay: 10 * time.Millisecond}, 20},
}

// ArmCommits lets a proxy apply commitFaults. The seed and a COMMIT's place decide its fault.
func ArmCommits(proxy *faultproxy.Proxy, seed uint64) {
	from := uint64(0)
	for _, f := range commitFaults {
		low, high := from, from+f.permille
		from = high
		fault := f.Fault
		fault.Times = -1
		fault.Where = func(u faultproxy.Unit) bool {
			if !u.Commits {
				return false
			}
			d := draw(seed, u)
			return low <= d && d < high
		}
		proxy.Arm(fault)
	}
}

// ArmAnywhere lets a proxy cut connections before and after permille of a thousand units without a
// COMMIT.
func ArmAnywhere(proxy *faultproxy.Proxy, seed, permille uint64) {
	for i, kind := range []faultproxy.Kind{faultproxy.Dropped, faultproxy.ReplyReset} {
		low := uint64(i) * permille / 2
		proxy.Arm(faultproxy.Fault{Kind: kind, Times: -1, Where: func(u faultproxy.Unit) bool {
			d := draw(^seed, u)
			return !u.Commits && u.Index > 0 && low <= d && d < low+permille/2
		}})
	}
}

// draw returns a number below 1,000 for a unit.
func draw(seed uint64, u faultproxy.Unit) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(u.Conn))
	binary.LittleEndian.PutUint64(b[16:], uint64(u.Index))
	_, _ = h.Write(b[:])
	x := h.Sum64()
	x ^= x >> 32 // FNV's low bits alone are poor
	return x % 1000
}
