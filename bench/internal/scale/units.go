package scale

import (
	"fmt"
	"time"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

func millis(d time.Duration) string { return figure.Millis(d) + " ms" }

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func times(v float64) string { return fmt.Sprintf("%.2fx", v) }

func seconds(d time.Duration) string { return d.Round(time.Second).String() }
