package limit

import "time"

// FixedWindow admits up to limit units in each cell of the calendar: with a minute, from
// hh:mm:00 until just before the next full minute. The cells are aligned to the Unix epoch
// and follow the wall clock. Its state is one count.
//
// It gives up the bound across cells: limit units at the end of a cell and limit at the
// beginning of the next are 2*limit units at nearly the same time, the most that can pass
// in any time as long as the window. Use it if a provider counts like that; otherwise a
// SlidingCounter costs hardly more.
//
// An instant before the latest charge or hold counts as that one. Make it with
// NewFixedWindow: the zero FixedWindow must not be used. It is safe for concurrent use.
type FixedWindow struct {
	cellCounter
}

// NewFixedWindow returns an empty FixedWindow. It returns an error that matches ErrInvalid
// for a limit or a window that is not positive, and for a window above 36 years.
func NewFixedWindow(limit int, window time.Duration) (*FixedWindow, error) {
	f := new(FixedWindow)
	return made(f, f.begin("new fixed window", limit, cells{length: window, aligned: true}, false))
}

// AnchoredWindow admits up to limit units in a window that begins with the first request.
// The next window begins with the first request at start+window or later. It follows the
// monotonic clock. Its state is one count.
//
// It gives up the bound across windows, as FixedWindow does: up to 2*limit-1 units can pass
// in a time as long as the window. Use it if a provider's window begins with the first
// request.
//
// A refused request begins no window. Cancelling the Hold that began a window takes the
// window back, unless units were charged or set aside in it beside that. An instant before
// the latest charge or hold counts as that one. Make it with NewAnchoredWindow: the zero
// AnchoredWindow must not be used. It is safe for concurrent use.
type AnchoredWindow struct {
	cellCounter
}

// NewAnchoredWindow returns an AnchoredWindow whose window has not begun. It returns an
// error that matches ErrInvalid for a limit or a window that is not positive, and for a
// window above 36 years.
func NewAnchoredWindow(limit int, window time.Duration) (*AnchoredWindow, error) {
	a := new(AnchoredWindow)
	return made(a, a.begin("new anchored window", limit, cells{length: window}, false))
}
