package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

type Refund struct {
	Payment string `json:"payment"`
	Cents   int    `json:"cents"`
}

type Refunded struct {
	ID string `json:"id"`
}

// refundTool refunds through an API that keeps idempotency keys for a day, as Stripe's does.
func refundTool(api string) external.Tool[Refund, Refunded] {
	client := &http.Client{Transport: &external.Transport{}}
	return external.Tool[Refund, Refunded]{
		Name: "refund", KeyKept: 23 * time.Hour, Ref: func(out Refunded) string { return out.ID },
		Perform: func(ctx context.Context, a external.Attempt, in Refund) (out Refunded, err error) {
			form := url.Values{"payment_intent": {in.Payment}, "amount": {strconv.Itoa(in.Cents)}}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/v1/refunds", strings.NewReader(form.Encode()))
			if err != nil {
				return out, external.NotDone(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Idempotency-Key", a.Key)
			res, err := client.Do(req)
			if err != nil {
				return out, err // Transport marks requests that were not sent
			}
			defer res.Body.Close()
			switch res.StatusCode {
			case http.StatusOK:
				return out, json.NewDecoder(res.Body).Decode(&out)
			case http.StatusPaymentRequired: // declined; the same key always will be
				return out, dedup.Final(errors.New("the refund was declined"))
			case http.StatusTooManyRequests:
				return out, external.NotDone(errors.New(res.Status))
			}
			return out, errors.New(res.Status) // the outcome is unknown
		},
	}
}

// A refund whose first reply is lost. It is sent again with the same key: there is one refund, and
// every call returns the recorded answer.
func Example() {
	ctx := context.Background()
	pool, drop := exampleDatabase()
	defer drop()
	api := newRefundAPI()
	defer api.Close()

	d, err := dedup.New(pool, nil)
	exampleMust(err)
	tools, err := external.New(d, nil)
	exampleMust(err)
	refund, err := external.Add(tools, refundTool(api.URL))
	exampleMust(err)
	for range 2 {
		result, err := refund.Do(ctx, dedup.Call{Scope: "acme", Key: "return 17"}, Refund{Payment: "pi_1", Cents: 9900})
		fmt.Println(result.Value.ID, "replayed:", result.Replayed, err)
	}
	fmt.Println("requests:", api.requests, "refunds:", len(api.byKey))
	exampleMust(tools.Close(ctx))

	// Output:
	// re_1 replayed: false <nil>
	// re_1 replayed: true <nil>
	// requests: 2 refunds: 1
}

// refundAPI makes one refund per key and loses its first reply.
type refundAPI struct {
	*httptest.Server
	requests int
	byKey    map[string]Refunded
}

func newRefundAPI() *refundAPI {
	api := &refundAPI{byKey: map[string]Refunded{}}
	api.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.requests++
		key := r.Header.Get("Idempotency-Key")
		if _, ok := api.byKey[key]; !ok {
			api.byKey[key] = Refunded{ID: fmt.Sprint("re_", len(api.byKey)+1)}
		}
		if api.requests == 1 {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(api.byKey[key])
	}))
	return api
}

// exampleDatabase returns a pool to a new database in which the statements were run. drop closes
// the pool and drops the database.
var exampleDatabase = pgtest.Example

func exampleMust(err error) {
	if err != nil {
		panic(err)
	}
}
