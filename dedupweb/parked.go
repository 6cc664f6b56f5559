package dedupweb

import (
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/table"
)

// parkedSearched is how many pages of operations are looked at for those of some scopes.
const parkedSearched = 10

// parked are the operations outside of the database that somebody has to look at.
type parked struct {
	Operations []operation
	// More says whether there may be more, and Next is the address of the page that has them.
	More    bool
	Next    string
	Missing bool // the table
}

// operation is an operation on a page. Act says whether the visitor may resolve it.
type operation struct {
	Call call
	external.Operation
	Act bool
}

func (v *visit) operation(op external.Operation, key bool) operation {
	return operation{call{op.Scope, op.Tool, op.Key, key}, op, v.Act && key && (op.State == external.Parked || op.State == external.Pending)}
}

func (c *console) showParked(v *visit) error {
	after, err := v.operationBefore()
	if err != nil {
		return err
	}
	p, err := c.readParked(v, after)
	if err != nil {
		return err
	}
	return v.page("parked", p)
}

// operationBefore is the operation that a page comes after, the zero one for the first page.
func (v *visit) operationBefore() (op external.Operation, err error) {
	text := v.r.FormValue("after")
	if text == "" {
		return op, nil
	}
	none := fail(http.StatusBadRequest, "There is no such page of parked effects.")
	if op.ChangedAt, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return op, none
	}
	op.Scope, op.Tool, op.Key = v.r.FormValue("scope"), v.r.FormValue("tool"), v.r.FormValue("key")
	for _, name := range [...]string{op.Scope, op.Tool, op.Key} {
		if name != "" && table.NameProblem("name", name) != "" {
			return op, none
		}
	}
	return op, nil
}

// readParked reads the oldest operations after one that the visitor may see.
func (c *console) readParked(v *visit, after external.Operation) (*parked, error) {
	p := &parked{}
	last := after
	var err error
	p.Missing, err = c.read(v, func(tx pgx.Tx) error {
		for range parkedSearched {
			ops, err := c.tools.ParkedTx(v.r.Context(), tx, last, listed+1)
			if err != nil {
				return err
			}
			for _, op := range ops {
				if v.sees(op.Scope) && len(p.Operations) == listed {
					p.More = true
					return nil
				}
				if last = op; v.sees(op.Scope) {
					p.Operations = append(p.Operations, v.operation(op, v.Keys))
				}
			}
			if len(ops) <= listed {
				return nil
			}
		}
		p.More = true
		return nil
	})
	if p.More {
		p.Next = v.parkedAfter(last, after)
	}
	return p, err
}

// parkedAfter is the address of the page after an operation. It names the operation to those
// who may see its key. To others it gives its time, so that the page begins with all of that
// time; it is empty where that would be this page again.
func (v *visit) parkedAfter(last, before external.Operation) string {
	values := url.Values{"after": {last.ChangedAt.UTC().Format(time.RFC3339Nano)}}
	switch {
	case v.Keys && v.sees(last.Scope):
		values.Set("scope", last.Scope)
		values.Set("tool", last.Tool)
		values.Set("key", last.Key)
	case last.ChangedAt.Equal(before.ChangedAt):
		return ""
	}
	return "parked?" + values.Encode()
}
