package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
)

// PayIn has the arguments of two tools that pay.
type PayIn struct {
	Order string `json:"order" dedup:"key"`
}

// Payment is the result of both tools.
type Payment struct {
	ID string `json:"id"`
}

// Two providers take a payment, and both answers are lost. One provider keeps keys and gets the
// same key again. The other cannot tell whether it was paid, so its operation is parked.
func ExampleExternalTool() {
	ctx := context.Background()
	d, done := exampleDeduper()
	defer done()
	outside, err := external.New(d, nil) // run outside.Recover(ctx) in every process
	exampleMust(err)
	defer func() { exampleMust(outside.Close(ctx)) }()

	kept := map[string]Payment{}
	tools := tool.NewRegistry(d, &tool.Options{External: outside})
	exampleMust(tools.Add(
		tool.ExternalTool[PayIn, Payment]{
			Description: "Pay by card.",
			Tool: external.Tool[PayIn, Payment]{
				Name: "pay_by_card", KeyKept: 24 * time.Hour, Ref: func(p Payment) string { return p.ID },
				Perform: func(_ context.Context, a external.Attempt, _ PayIn) (Payment, error) {
					if p, there := kept[a.Key]; there {
						return p, nil
					}
					kept[a.Key] = Payment{fmt.Sprint("ch_", len(kept)+1)}
					return Payment{}, io.ErrUnexpectedEOF
				},
			},
		},
		tool.ExternalTool[PayIn, Payment]{
			Description: "Pay by wire.", Class: tool.Destructive, // a payment cannot be undone
			Tool: external.Tool[PayIn, Payment]{
				Name: "pay_by_wire",
				Perform: func(context.Context, external.Attempt, PayIn) (Payment, error) {
					return Payment{}, io.ErrUnexpectedEOF
				},
			},
		},
	))
	for _, name := range []string{"pay_by_card", "pay_by_wire"} {
		answer, err := tools.Invoke(ctx, tool.Invocation{Scope: "acme", Tool: name, Args: json.RawMessage(`{"order":"A-117"}`)})
		var parked *external.ParkedError
		if errors.As(err, &parked) {
			fmt.Println(name, "is parked:", parked.Operation.Note)
			continue
		}
		exampleMust(err)
		fmt.Println(name, "has paid:", string(answer.JSON))
	}
	// Output:
	// pay_by_card has paid: {"id":"ch_1"}
	// pay_by_wire is parked: no answer: unexpected EOF
}
