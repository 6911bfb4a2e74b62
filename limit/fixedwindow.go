package limit

import "time"

// FixedWindow admits up to limit units in each cell of the calendar: with a minute, from
// hh:mm:00 until just before the next. The cells are aligned to the Unix epoch and follow
// the wall clock. All that it remembers is one count.
//
// It gives up the bound between cells: limit units at the end of one and as many at the
// beginning of the next are 2*limit units in no time, and that is the most that any time
// as long as the window can hold. Take it where a provider counts like that; else
// SlidingCounter costs hardly more.
//
// An instant before the latest at which units were charged or put on hold counts as that
// one. Make it with NewFixedWindow: the zero FixedWindow must not be used. It is
// safe for concurrent use.
type FixedWindow struct {
	cellCounter
}

// NewFixedWindow returns a FixedWindow in which nothing is charged. It returns an error
// that matches ErrInvalid for a limit or a window that is not positive, and for a window
// above 36 years.
func NewFixedWindow(limit int, window time.Duration) (*FixedWindow, error) {
	if err := validateWindow("new fixed window", limit, window); err != nil {
		return nil, err
	}
	f := &FixedWindow{}
	f.begin(limit, cells{length: window, aligned: true}, false)
	return f, nil
}

// AnchoredWindow admits up to limit units in a window that the first request begins. The
// next window begins with the first request after its end; one that comes just then, at
// start+window, begins a new one. It follows the monotonic clock. All that it remembers
// is one count.
//
// It gives up the bound between windows, as FixedWindow does: up to 2*limit-1 units can
// pass in a time as long as the window. Take it where a provider's window begins with
// the first request.
//
// A request that is refused begins no window. A window that a Hold has begun remains
// when that is released if anything else was charged or put on hold in it. An instant
// before the latest at which units were charged or put on hold counts as that one. Make
// it with NewAnchoredWindow: the zero AnchoredWindow must not be used. It is safe
// for concurrent use.
type AnchoredWindow struct {
	cellCounter
}

// NewAnchoredWindow returns an AnchoredWindow that has not begun. It returns an error
// that matches ErrInvalid for a limit or a window that is not positive, and for a window
// above 36 years.
func NewAnchoredWindow(limit int, window time.Duration) (*AnchoredWindow, error) {
	if err := validateWindow("new anchored window", limit, window); err != nil {
		return nil, err
	}
	a := &AnchoredWindow{}
	a.begin(limit, cells{length: window}, false)
	return a, nil
}
