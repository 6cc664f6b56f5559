package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	request = "a request"
	answer  = "an answer of some length"
)

// bundle is a server, and the driver's end of the connections to it.
type bundle struct {
	url       string
	transport *Transport
	served    chan struct{} // gets a value for each request that has arrived whole
}

// arrived waits for a request to arrive at the server.
func (b *bundle) arrived(t *testing.T) {
	t.Helper()
	select {
	case <-b.served:
	case <-time.After(20 * time.Second):
		t.Fatal("no request has arrived")
	}
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{transport: New(), served: make(chan struct{}, 10)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && string(body) == request {
			b.served <- struct{}{}
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(func() {
		b.transport.Close()
		server.Close()
	})
	b.url = server.URL
	return b
}

// send makes a request and returns what is read of its answer.
func (b *bundle) send(ctx context.Context, header ...string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, strings.NewReader(request))
	if err != nil {
		return "", err
	}
	for _, name := range header {
		r.Header.Set(name, "value")
	}
	response, err := (&http.Client{Transport: b.transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// TestCut cuts fresh connections and such as have been used before.
func TestCut(t *testing.T) {
	t.Parallel()
	for how, read := range map[plan.How]string{
		plan.RequestSent:  "",
		plan.AnswerLost:   "",
		plan.AnswerBroken: answer[:len(answer)/2],
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/used=%v", how, used), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				if used {
					_, err := b.send(t.Context())
					require.NoError(t, err)
					b.arrived(t)
				}
				cut := NewCut(how)
				b.transport.Arm(cut)
				got, err := b.send(Delivery(t.Context()))
				require.Error(t, err)
				require.Equal(t, read, got)
				require.True(t, cut.Applied())
				b.arrived(t)

				got, err = b.send(Delivery(t.Context()))
				require.NoError(t, err, "a cut befalls one delivery")
				require.Equal(t, answer, got)
			})
		}
	}
}

// TestCutThatTheTransportMends shows that net/http sends a request with a key
// again by itself, which is a cut all the same.
func TestCutThatTheTransportMends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.send(t.Context())
	require.NoError(t, err)
	b.arrived(t)
	cut := NewCut(plan.RequestSent)
	b.transport.Arm(cut)
	got, err := b.send(Delivery(t.Context()), "Idempotency-Key")
	require.NoError(t, err)
	require.Equal(t, answer, got)
	require.True(t, cut.Applied())
	b.arrived(t)
	b.arrived(t)
}

func TestCutFindsNoDelivery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cut := NewCut(plan.AnswerLost)
	b.transport.Arm(cut)
	_, err := b.send(t.Context())
	require.NoError(t, err, "it makes no delivery")
	cut.Disarm()
	_, err = b.send(Delivery(t.Context()))
	require.NoError(t, err, "it was disarmed")
	require.False(t, cut.Applied())
}

func TestCutBefallsOneOfManyTransports(t *testing.T) {
	t.Parallel()
	cut := NewCut(plan.AnswerBroken)
	var failed atomic.Int32
	var sending sync.WaitGroup
	for range 8 {
		b := setup(t)
		b.transport.Arm(cut)
		sending.Go(func() {
			if _, err := b.send(Delivery(t.Context())); err != nil {
				failed.Add(1)
			}
		})
	}
	sending.Wait()
	require.EqualValues(t, 1, failed.Load())
}
