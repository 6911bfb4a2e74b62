package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/history"

// noteSavedLocked notes that the Persist under way saves the window as it is.
func (w *window) noteSavedLocked() {
	if w.slots != nil {
		w.round++
		w.slots.saves.Note(w.home.saves, w.home.saved, w.historyLocked(), w.round)
	}
}

// historyLocked returns the history of the window, and makes a missing one: when a Persist first
// meets the window with slots. Without slots no reservation of its model is open.
func (w *window) historyLocked() *history.History {
	if w.history == nil {
		w.history = history.New()
	}
	return w.history
}

// continueLocked notes that Load made w from the file, as the last successful Persist wrote it.
func (g *slots) continueLocked(w *window) {
	if h := g.saves.Load(g.home.saved, w.round); h != nil {
		w.history = h
	}
}

// continueLocked notes that w was made from the entries of an old window, after a program had
// changed them.
func (w *window) continueLocked(old *window) {
	if old != nil && old.home == w.home && old.slots != nil {
		w.history = old.historyLocked().Continue(old.round + 1)
	}
}

// continues reports whether w took over the charge of a reservation from the window that was
// charged. The charge may have left w since.
func (w *window) continues(r *Reservation) bool { return w.history.Has(r.window.history, r.round) }
