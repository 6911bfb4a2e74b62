package querytest

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// axis is the vertical axis of a chart.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
}

// newAxis returns an axis from zero, or from one with logarithms, to a round number above all.
func newAxis(lines []line, c *chart) axis {
	top, sum := 0.0, 0.0
	for _, l := range lines {
		top = max(top, highest(l.values))
		sum += highest(l.values)
	}
	if c.stacked {
		top = sum
	}
	if c.log {
		a := axis{low: 1, high: max(10, math.Pow(10, math.Ceil(math.Log10(max(top, 1))))), log: true}
		for v := 1.0; v <= a.high; v *= 100 {
			a.ticks = append(a.ticks, v)
		}
		return a
	}
	if top == 0 {
		top = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top)))
	switch {
	case top/step <= 1.5:
		step /= 2
	case top/step > 5:
		step *= 2
	}
	a := axis{high: step * math.Ceil(top/step)}
	for v := 0.0; v <= a.high*1.001; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// share returns how far up the axis a value is, from 0 to 1.
func (a axis) share(v float64) float64 {
	if a.log {
		v = math.Log10(max(v, a.low)) / math.Log10(a.high)
	} else {
		v = (v - a.low) / (a.high - a.low)
	}
	return min(max(v, 0), 1)
}

// highest returns the highest of the values, at least zero.
func highest(values []float64) (top float64) {
	for _, v := range values {
		if v > top {
			top = v
		}
	}
	return top
}

// last returns the last value that is there, zero if none is.
func last(values []float64) float64 {
	for i := len(values) - 1; i >= 0; i-- {
		if !math.IsNaN(values[i]) {
			return values[i]
		}
	}
	return 0
}

// inUnit returns a value in Grafana's unit, in few letters.
func inUnit(v float64, unit string) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch unit {
	case "percentunit":
		return number(math.Round(v*1000)/10) + " %"
	case "reqps":
		return number(v) + "/s"
	case "s":
		switch d := time.Duration(v * float64(time.Second)); {
		case v == 0:
			return "0 s"
		case d >= 48*time.Hour:
			return fmt.Sprintf("%.0f days", d.Hours()/24)
		case d >= 2*time.Minute:
			return fmt.Sprintf("%.1f min", d.Minutes())
		case d < time.Second:
			return number(v*1000) + " ms"
		}
		return number(v) + " s"
	}
	switch {
	case v >= 1e6:
		return number(v/1e6) + " M"
	case v >= 1e3:
		return number(v/1e3) + " k"
	}
	return number(v)
}
