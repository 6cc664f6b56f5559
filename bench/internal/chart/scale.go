package chart

import "math"

// scale maps values to coordinates.
type scale struct {
	from, to   float64 // values
	start, end float64 // coordinates
	log        bool
}

func (s scale) at(v float64) float64 {
	from, to := s.from, s.to
	if s.log {
		v, from, to = math.Log(v), math.Log(from), math.Log(to)
	}
	if to == from {
		return s.start
	}
	return tenth(s.start + (v-from)/(to-from)*(s.end-s.start))
}

// roundTicks are about n round values from 0 up to the first that is not below
// most.
func roundTicks(most float64, n int) []float64 {
	if most <= 0 {
		return []float64{0, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(most/float64(n))))
	for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if most/step <= float64(n) {
			break
		}
		step *= factor
	}
	var ticks []float64
	for i := 0; ; i++ {
		ticks = append(ticks, step*float64(i))
		if step*float64(i) >= most {
			return ticks
		}
	}
}

// logTicks are the round values from least to most on a logarithmic scale: powers
// of ten, and between them 2 and 5 where there is room.
func logTicks(least, most float64) []float64 {
	factors := []float64{1, 2, 5}
	if most/least > 1e3 {
		factors = []float64{1}
	}
	var ticks []float64
	for power := math.Floor(math.Log10(least)); math.Pow(10, power) <= most; power++ {
		for _, factor := range factors {
			// Divided rather than multiplied: 0.1 times 2 is not the nearest to 0.2.
			tick := factor * math.Pow(10, power)
			if power < 0 {
				tick = factor / math.Pow(10, -power)
			}
			if least <= tick && tick <= most {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}
