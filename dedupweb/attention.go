package dedupweb

import (
	"context"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/inspect"
)

const (
	// listed is the most entries of a list.
	listed = 100
	// longInFlight is the age from which a call in flight needs attention.
	longInFlight = time.Minute
	// searched is the most scopes of a visitor that are searched for tools.
	searched = 1000
)

// attention is the page of everything that needs an operator.
type attention struct {
	*inspect.Attention
	// Groups are the groups that are not empty.
	Groups []group
}

// group is a section of the page.
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
		Text: "These effects outside the database may have happened, or happened twice. Look in the provider's books, then give a verdict on the call's page.",
	}, {
		ID: "open", Tone: "warn", Badge: "open for long", Title: "Open for long", kinds: [2]string{"open"},
		Text: "Effects outside the database that have no answer and are not parked. See that a process with the tool runs Tools.Recover.",
	}, {
		ID: "long", Tone: "warn", Badge: "in flight for long", Title: "In flight for long", kinds: [2]string{"in_flight"},
		Text: "Repeats of these calls wait, or are answered that the call is in flight.",
	}, {
		ID: "sweep", Tone: "warn", Badge: "late sweep", Title: "The sweep is late", kinds: [2]string{"sweep"},
		Text: "The table grows, and holds results for longer than it should.",
	},
}

// readAttention reads everything that needs an operator in the given scopes; nil means all.
func (c *console) readAttention(ctx context.Context, scopes []string) (*attention, error) {
	found, err := c.db.Attention(ctx, scopes, longInFlight, listed)
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

// Tone is the tone of the first group, which is the worst.
func (a *attention) Tone() string { return a.Groups[0].Tone }

// Flying is the number of calls in flight, empty for none.
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
