// Package slidingwindow has the arithmetic of a counter that weighs the count of the window
// before by the share that still counts of it.
package slidingwindow

import "math/bits"

// Weighted returns ⌊count × left / window⌋. None is negative, and left is at most the window.
func Weighted(count, left, window int64) int64 {
	if count == 0 {
		return 0
	}
	if left == window {
		return count
	}
	high, low := bits.Mul64(uint64(count), uint64(left))
	n, _ := bits.Div64(high, low, uint64(window))
	return int64(n)
}

// Fades returns how much of a window has to elapse until at most room of the count of the
// window before counts: the least e with Weighted(count, window−e, window) ≤ room. It is 0 if
// count ≤ room. Room is not negative.
func Fades(count, room, window int64) int64 {
	if count <= room {
		return 0
	}
	// Of window−e, the most that is less than (room+1) × window / count.
	high, low := bits.Mul64(uint64(room)+1, uint64(window))
	low, borrow := bits.Sub64(low, 1, 0)
	left, _ := bits.Div64(high-borrow, low, uint64(count))
	return window - int64(left)
}
