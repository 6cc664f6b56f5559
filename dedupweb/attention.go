package dedupweb

import (
	"context"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/inspect"
)

const (
	// listed is how many entries a list has at most.
	listed = 100
	// held is how long a call may be in flight.
	held = time.Minute
	// searched is how many scopes of a visitor are looked at for tools.
	searched = 1000
)

// attention is what somebody has to look at.
type attention struct {
	*inspect.Attention
	// Groups are those of which there is something.
	Groups []group
}

// group is what is shown together of what needs somebody.
type group struct {
	ID, Tone, Badge, Title, Text string
	kinds                        [2]string
	Needs                        []inspect.Need
}

var groups = []group{
	{
		ID: "broken", Tone: "bad", Badge: "broken", Title: "Broken", kinds: [2]string{"broken"},
		Text: "An effect ended its own transaction. Find out what it did and repair that. Then say on the call's page that it happened, or free the record.",
	}, {
		ID: "parked", Tone: "warn", Badge: "parked", Title: "Parked, or happened twice", kinds: [2]string{"parked", "twice"},
		Text: "These effects outside of the database may have happened, or happened twice. Look in the provider's books, then say on the call's page what became of it.",
	}, {
		ID: "open", Tone: "warn", Badge: "open for long", Title: "Open for long", kinds: [2]string{"open"},
		Text: "Effects outside of the database that have no answer and are not parked. See that a process with the tool runs Tools.Recover.",
	}, {
		ID: "long", Tone: "warn", Badge: "in flight for long", Title: "In flight for long", kinds: [2]string{"in_flight"},
		Text: "Their twins wait, or are answered that the call is in flight.",
	}, {
		ID: "sweep", Tone: "warn", Badge: "late sweep", Title: "The sweep is late", kinds: [2]string{"sweep"},
		Text: "The table grows, and holds results for longer than it should.",
	},
}

// readAttention reads what needs somebody, in the scopes that may be seen.
func (c *console) readAttention(ctx context.Context, scopes []string) (*attention, error) {
	found, err := c.db.Attention(ctx, scopes, held, listed)
	if err != nil {
		return nil, err
	}
	a := &attention{Attention: found}
	for _, g := range groups {
		for _, n := range found.Needs {
			if n.Kind == g.kinds[0] || n.Kind == g.kinds[1] {
				g.Needs = append(g.Needs, n)
			}
		}
		if g.Needs != nil {
			a.Groups = append(a.Groups, g)
		}
	}
	return a, nil
}

func (c *console) showAttention(v *visit) error {
	a, err := c.readAttention(v.r.Context(), v.Scopes)
	if err != nil {
		return err
	}
	v.hide(a.Needs)
	return v.page("attention", a)
}

// Tone is that of the worst of it.
func (a *attention) Tone() string { return a.Groups[0].Tone }

// Flying is how many calls are in flight, empty for none.
func (a *attention) Flying() string {
	switch n := len(a.InFlight); {
	case n == 0:
		return ""
	case n > listed:
		return fmt.Sprintf("%d+", listed)
	default:
		return fmt.Sprint(n)
	}
}
