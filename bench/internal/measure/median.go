package measure

import "slices"

// Median is the middle value, the mean of the two middle ones of an even number,
// and 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// MedianOf is the median of a figure of each.
func MedianOf[T any](all []T, figure func(T) float64) float64 {
	values := make([]float64, 0, len(all))
	for _, one := range all {
		values = append(values, figure(one))
	}
	return Median(values)
}
