package dedup

import (
	"testing"
	"time"
)

// A: a call that has waited longer than it may waits without a limit.
func TestEdgeRecordLimit(t *testing.T) {
	t.Parallel()
	d := &Deduper{opts: Options{CommitTimeout: 10 * time.Second}}
	for _, over := range []time.Duration{0, 4 * time.Millisecond, 5 * time.Millisecond, 8 * time.Millisecond} {
		c := &call{waiter: waiter{max: 100 * time.Millisecond, waited: 100*time.Millisecond + over}}
		tx := &transaction{g: &group{d: d}, locked: true, calls: []*call{c}}
		if limit := tx.recordLimit(); limit <= 0 {
			t.Errorf("over by %s: limit %s, which is none", over, limit)
		}
	}
}
