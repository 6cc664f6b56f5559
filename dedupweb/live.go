package dedupweb

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// streamed is how long a stream lasts. A browser then asks anew, so that its access is looked
// at again and a server that shuts down is not kept waiting for longer.
const streamed = 30 * time.Second

// live has the overview of a window read once for all who look at it, and not at all when nobody does.
type live struct {
	read  func(context.Context) (*overview, error)
	every time.Duration

	// turn holds an element while somebody reads. It guards last and its time.
	turn chan struct{}
	last *overview
	at   time.Time

	mu      sync.Mutex
	viewers map[chan *overview]struct{}
	stop    context.CancelFunc // nil where nobody looks
}

// newLive returns what reads with read once in a while.
func newLive(every time.Duration, read func(context.Context) (*overview, error)) *live {
	return &live{read: read, every: every, turn: make(chan struct{}, 1), viewers: map[chan *overview]struct{}{}}
}

// latest returns an overview that was read a while ago at most.
func (l *live) latest(ctx context.Context, while time.Duration) (*overview, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.last != nil && time.Since(l.at) < while {
		return l.last, nil
	}
	began := time.Now()
	o, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	l.last, l.at = o, began
	return o, nil
}

// watch returns where each new overview comes, until leave is called. The first one to watch
// has it read from then on, and the last one to leave ends that.
func (l *live) watch() (overviews <-chan *overview, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	viewer := make(chan *overview, 1)
	l.viewers[viewer] = struct{}{}
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(context.Background())
		go l.run(ctx)
	}
	return viewer, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.viewers, viewer)
		if len(l.viewers) == 0 {
			l.stop()
			l.stop = nil
		}
	}
}

// run reads and delivers an overview at once, if the last one is older than a tick, and then at
// each tick. So a stream that is opened anew renews a window with long ticks, too.
func (l *live) run(ctx context.Context) {
	ticks := time.NewTicker(l.every)
	defer ticks.Stop()
	for while := l.every; ; while = l.every / 2 { // ticks are not quite even
		o, err := l.latest(ctx, while)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			o = &overview{Problem: explained(err)}
		}
		l.deliver(o)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// deliver gives every viewer the overview. Who has not taken the one before gets this one
// instead.
func (l *live) deliver(o *overview) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for viewer := range l.viewers {
		select {
		case <-viewer:
		default:
		}
		viewer <- o
	}
}

// stream sends the overview as server-sent events.
func (c *console) stream(v *visit) error {
	l, err := c.overviews(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), streamed)
	defer cancel()
	answer := http.NewResponseController(v.w)
	_ = answer.SetWriteDeadline(time.Now().Add(2 * streamed)) // some servers cannot, and have none
	overviews, leave := l.watch()
	defer leave()
	v.w.Header().Set("Content-Type", "text/event-stream")
	_, err = fmt.Fprint(v.w, "retry: 1000\n\n")
	for err == nil {
		if err = answer.Flush(); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case o := <-overviews:
			err = send(v.w, o)
		}
	}
	return nil // the viewer has left
}

// send writes an overview as one event.
func send(w http.ResponseWriter, o *overview) error {
	var text bytes.Buffer
	if err := pages.ExecuteTemplate(&text, "counts", o); err != nil {
		return err
	}
	// Each of its lines is one of the event. A name may have what else ends a line there.
	lines := strings.NewReplacer("\r", " ", "\n", "\ndata: ").Replace(text.String())
	_, err := fmt.Fprintf(w, "data: %s\n\n", lines)
	return err
}
