package tally

import "strconv"

// Times shows a factor with two digits or as a whole number.
func Times(factor float64) string {
	switch {
	case factor < 0.01:
		return "less than 0.01"
	case factor < 10:
		return strconv.FormatFloat(factor, 'g', 2, 64)
	}
	return strconv.FormatFloat(factor, 'f', 0, 64)
}
