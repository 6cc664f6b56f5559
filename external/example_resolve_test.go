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

// Two operators decide at once, in a console without the tool. The first verdict is stored. The
// second operator reads it, and overrules it before a process with the tool carries it out.
func ExampleVerdict_Overruling() {
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
	_, err = fax.Do(ctx, dedup.Call{Scope: "acme", Key: "order 7"}, "hello")
	parked, _ := errors.AsType[*external.ParkedError](err)
	exampleMust(tools.Close(ctx))

	console, err := external.New(d, nil)
	exampleMust(err)
	exampleMust(console.Resolve(ctx, parked.Operation, external.Never("not in the journal").By("ada")))
	verdict := external.Refuse("the customer called").By("bob")
	err = console.Resolve(ctx, parked.Operation, verdict)
	decided, ok := errors.AsType[*external.VerdictError](err)
	fmt.Println("refused:", ok, decided.Operation.Verdict, decided.Operation.Note)

	exampleMust(console.Resolve(ctx, decided.Operation, verdict.Overruling()))
	status, err := console.Status(ctx, "acme", "fax", "order 7")
	exampleMust(err)
	fmt.Println(status.Operation.Verdict, status.Operation.Note)

	// Output:
	// refused: true never ada: not in the journal
	// refuse bob: the customer called
}

// A look-up finds two refunds of one call. The first is the answer, and the operation is listed
// until an operator has taken the second back.
func ExampleCleared() {
	ctx := context.Background()
	pool, drop := exampleDatabase()
	defer drop()
	d, err := dedup.New(pool, nil)
	exampleMust(err)
	tools, err := external.New(d, nil)
	exampleMust(err)
	refund, err := external.Add(tools, external.Tool[string, Refunded]{
		Name: "refund",
		Perform: func(context.Context, external.Attempt, string) (Refunded, error) {
			return Refunded{}, errors.New("the reply was lost")
		},
		Find: func(context.Context, external.Attempt, string) ([]Refunded, error) {
			return []Refunded{{ID: "re_1"}, {ID: "re_2"}}, nil
		},
		Ref: func(r Refunded) string { return r.ID },
	})
	exampleMust(err)
	result, err := refund.Do(ctx, dedup.Call{Scope: "acme", Key: "order 7"}, "order 7")
	fmt.Println(result.Value.ID, err)

	doubled, err := tools.Parked(ctx, pool, external.List{Limit: 10})
	exampleMust(err)
	fmt.Println("also:", doubled[0].Twice)
	exampleMust(tools.Resolve(ctx, doubled[0], external.Cleared("re_2 is taken back").By("ada")))
	left, err := tools.Parked(ctx, pool, external.List{Limit: 10})
	fmt.Println("listed:", len(left), err)
	exampleMust(tools.Close(ctx))

	// Output:
	// re_1 <nil>
	// also: re_2
	// listed: 0 <nil>
}
