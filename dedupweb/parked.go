package dedupweb

import (
	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
)

// parkedSearched is how many pages of operations are looked at for those of some scopes.
const parkedSearched = 10

// parked are the operations outside of the database that somebody has to look at.
type parked struct {
	Operations []operation
	More       bool
	Missing    bool // the table
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
	p, err := c.readParked(v)
	if err != nil {
		return err
	}
	return v.page("parked", p)
}

// readParked reads the oldest operations that the visitor may see.
func (c *console) readParked(v *visit) (*parked, error) {
	p := &parked{}
	var err error
	p.Missing, err = c.read(v, func(tx pgx.Tx) error {
		var last external.Operation
		for range parkedSearched {
			ops, err := c.tools.ParkedTx(v.r.Context(), tx, last, listed+1)
			if err != nil {
				return err
			}
			for _, op := range ops {
				switch last = op; {
				case !v.sees(op.Scope):
				case len(p.Operations) == listed:
					p.More = true
					return nil
				default:
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
	return p, err
}
