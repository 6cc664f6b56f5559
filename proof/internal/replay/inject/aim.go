package inject

import (
	"strings"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// aim lets a fault that is armed at the proxies of several workers hit one
// unit, whichever comes first.
type aim struct {
	match func(faultproxy.Unit) bool

	mu    sync.Mutex
	taken bool
	at    int // the worker, once taken
	conn  int // its connection's number at its proxy
}

// where is the faultproxy.Fault.Where for the proxy of a worker.
func (a *aim) where(at int) func(faultproxy.Unit) bool {
	return func(u faultproxy.Unit) bool {
		if !a.match(u) {
			return false
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.taken {
			return false
		}
		a.taken, a.at, a.conn = true, at, u.Conn
		return true
	}
}

// retry picks units of the worker that was hit, on another connection.
func (a *aim) retry(at int) func(faultproxy.Unit) bool {
	return func(u faultproxy.Unit) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.taken && a.at == at && a.conn != u.Conn && len(u.Executes) > 0
	}
}

// target says which units a fault of the plan is for.
func target(f plan.Fault) func(faultproxy.Unit) bool {
	switch {
	case f.Kind == plan.LostReply:
		return opens
	case f.How == plan.EffectBegins:
		return inEffect
	case f.How == plan.EffectEnds:
		return faultproxy.AtSQL("INSERT INTO effects") // the last of every tool
	default:
		return faultproxy.AtCommit
	}
}

// opens reports whether a unit opens a transaction: the first round trip of a
// delivery. With dedup the look-up of the record travels in it.
func opens(u faultproxy.Unit) bool {
	return len(u.Executes) > 0 && hasPrefix(u.Executes[0], "begin")
}

// inEffect reports whether a unit belongs to a tool: it names one of the
// application's tables, which nothing else does.
func inEffect(u faultproxy.Unit) bool {
	return faultproxy.AtSQL("airline_")(u) || faultproxy.AtSQL("retail_")(u)
}

func hasPrefix(sql, prefix string) bool {
	return len(sql) >= len(prefix) && strings.EqualFold(sql[:len(prefix)], prefix)
}
