package external_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// A fax cannot be looked up, and its provider takes no key. The reply is lost, so an operator looks
// and gives a verdict. The actor is kept in tool_dedup_audit.
func ExampleTools_Resolve() {
	ctx := context.Background()
	pool, drop := exampleDatabase()
	defer drop()
	d, err := dedup.New(pool, nil)
	exampleMust(err)
	tools, err := external.New(d, nil)
	exampleMust(err)
	fax, err := external.Add(tools, external.Tool[string, Refunded]{
		Name: "fax",
		Perform: func(context.Context, external.Attempt, string) (Refunded, error) {
			return Refunded{}, errors.New("the line went dead")
		},
	})
	exampleMust(err)
	call := dedup.Call{Scope: "acme", Key: "order 7"}
	_, err = fax.Do(ctx, call, "hello")
	parked, ok := errors.AsType[*external.ParkedError](err)
	fmt.Println("parked:", ok)

	verdict := external.Happened(Refunded{ID: "fax 12"}, "it is in the tray").By("ada")
	exampleMust(tools.Resolve(ctx, parked.Operation, verdict))
	result, err := fax.Do(ctx, call, "hello")
	fmt.Println(result.Value.ID, "replayed:", result.Replayed, err)

	var said string
	exampleMust(pool.QueryRow(ctx, `SELECT concat_ws(' ', actor, action, reason) FROM tool_dedup_audit`).Scan(&said))
	fmt.Println(said)
	exampleMust(tools.Close(ctx))

	// Output:
	// parked: true
	// fax 12 replayed: true <nil>
	// ada happened it is in the tray
}
