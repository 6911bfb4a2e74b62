package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/history"

// noteSavedLocked notes that the Persist under way saves a window as it is.
func (rl *RateLimiter) noteSavedLocked(w *window) {
	if w.slots != nil {
		w.round++
		w.slots.saves.Note(rl.saves, rl.saved, w.historyLocked(), w.round)
	}
}

// historyLocked returns the history of a window, which gets it when the first Persist meets it with
// slots. Without slots no reservation of its model is open.
func (w *window) historyLocked() *history.History {
	if w.history == nil {
		w.history = history.New()
	}
	return w.history
}

// continueLocked notes that Load made a window of what the last Persist that succeeded saved.
func (g *slots) continueLocked(w *window) {
	if h := g.saves.Load(g.home.saved, w.round); h != nil {
		w.history = h
	}
}

// continueLocked notes that a window was made of the entries of an old one, as a program changed
// them.
func (w *window) continueLocked(old *window) {
	if old != nil && old.home == w.home && old.slots != nil {
		w.history = old.historyLocked().Continue(old.round + 1)
	}
}

// continues reports whether a window has the charge of a reservation that was placed in another
// one, unless it has left since.
func (w *window) continues(r *Reservation) bool { return w.history.Has(r.window.history, r.round) }
