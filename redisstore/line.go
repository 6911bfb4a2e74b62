package redisstore

import "time"

// line is the processes whose turns to decide come before that of this one. Where processes beat
// each other to it again and again, the store lets them decide in turns.
type line struct {
	ahead map[int64]bool // those that have not written since
	seen  int64          // the place up to which their events were looked for
}

// lineOf returns the line that a reply tells; nil if nobody is ahead.
func lineOf(r timed) *line {
	words := r.words()
	if len(words) == 0 {
		return nil
	}
	n := &line{ahead: make(map[int64]bool, len(words)), seen: r.place}
	for _, text := range words {
		if process, err := parseInt(text); err == nil {
			n.ahead[process] = true
		}
	}
	return n
}

// quiet is how long nobody ahead may write before the store is asked who is ahead: somebody may
// have let the turn pass, or be gone.
const quiet = 8 * time.Millisecond

// wait waits until those ahead have written. It reports whether they have.
func (n *line) wait(l *Log) bool {
	over := time.NewTimer(quiet)
	defer over.Stop()
	l.inLine.Store(true)
	defer l.inLine.Store(false)
	select {
	case l.urgent <- struct{}{}:
	default:
	}
	for {
		grown := l.heard.change()
		entries, ok := l.heard.behind(n.seen)
		waits := len(n.ahead)
		for _, e := range entries {
			delete(n.ahead, e.process())
			n.seen = e.last()
		}
		switch {
		case len(n.ahead) == 0:
			return true
		case !ok:
			return false
		case len(n.ahead) < waits:
			over.Reset(quiet)
		}
		select {
		case <-grown:
		case <-over.C:
			return false
		case <-l.closing.Done():
			return false
		}
	}
}
