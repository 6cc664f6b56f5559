package deduptest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/deduptest"
)

// A provider can be used alone, as a fake that counts.
func ExampleProvider() {
	provider := &deduptest.Provider{KeyKept: time.Hour}
	first, _ := provider.Act("key-1", "order-7")
	again, _ := provider.Act("key-1", "order-7")
	other, _ := provider.Act("", "order-7")
	fmt.Println(first, again, other)
	fmt.Println(provider.Book("order-7"))

	// Output:
	// effect_1 effect_1 effect_2
	// [effect_1 effect_2]
}

func TestProviderAtOnce(t *testing.T) {
	t.Parallel()
	p := &deduptest.Provider{KeyKept: time.Hour}
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			_, err := p.Act(fmt.Sprint(i%10), "order")
			assert.NoError(t, err)
		})
	}
	calls.Wait()
	ids, err := p.Find("order")
	require.NoError(t, err)
	require.Len(t, ids, 10)
}

// TestProviderSeesLate is a look-up in a search index.
func TestProviderSeesLate(t *testing.T) {
	t.Parallel()
	p := &deduptest.Provider{SeesLate: time.Hour}
	id, err := p.Act("", "order")
	require.NoError(t, err)
	ids, err := p.Find("order")
	require.NoError(t, err)
	require.Empty(t, ids)
	require.Equal(t, []string{id}, p.Book("order"))
}

// TestProviderWithoutKeys: the provider ignores keys.
func TestProviderWithoutKeys(t *testing.T) {
	t.Parallel()
	p := &deduptest.Provider{}
	for range 2 {
		_, err := p.Act("key", "order")
		require.NoError(t, err)
	}
	require.Len(t, p.Book("order"), 2)
	require.Empty(t, p.Book("another"))
}
