//go:build !unix

package measure

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
