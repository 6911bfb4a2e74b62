package ratelimit

// history tells which charges of a window are in another window that continues it: the one that
// Load makes of the file of Persist, or the one that is made where a program changed an entry of
// State by hand. A reservation looks for its charge only there: elsewhere a charge of the same
// instant and the same tokens is that of another call.
//
// A window gets its history at the first Persist that meets it with slots. Without slots no
// reservation of its model is open.
type history struct {
	first     *history // of the windows that continue each other; itself for the first of them
	continued uint16   // the charges placed in earlier rounds of the window are in the one that continues it
}

// saveNote says what a Persist saved of a model.
type saveNote struct {
	save    int      // which Persist it was
	history *history // of the window that it met; nil for none
	round   uint16   // the charges placed in earlier rounds of that are saved
}

// endSave notes that the file has what Persist met.
func (rl *RateLimiter) endSave() {
	rl.mu.Lock()
	rl.saved = rl.saves
	rl.mu.Unlock()
}

// noteSavedLocked notes that the Persist under way saves a window as it is.
func (rl *RateLimiter) noteSavedLocked(w *window) {
	g := w.slots
	if g == nil {
		return
	}
	if g.lastSave.save == rl.saved {
		g.savedBefore = g.lastSave
	}
	w.round++
	g.lastSave = saveNote{rl.saves, w.historyLocked(), w.round}
}

func (w *window) historyLocked() *history {
	if w.history == nil {
		w.history = new(history)
		w.history.first = w.history
	}
	return w.history
}

// continueLocked notes that Load made a window of what the last Persist that succeeded saved.
func (g *slots) continueLocked(w *window) {
	note := g.lastSave
	if note.save != g.home.saved {
		note = g.savedBefore
	}
	if note.history == nil || note.save != g.home.saved {
		return // the file has nothing that this limiter charged
	}
	note.history.continued = note.round
	w.history = &history{first: note.history.first}
	g.lastSave = saveNote{note.save, w.history, w.round} // for a Load of the same file again
}

// continueLocked notes that a window was made of the entries of an old one, as a program changed
// them.
func (w *window) continueLocked(old *window) {
	if old != nil && old.home == w.home && old.slots != nil {
		h := old.historyLocked()
		h.continued = old.round + 1
		w.history = &history{first: h.first}
	}
}

// continues reports whether a window has the charge of a reservation that was placed in another
// one, unless it has left since.
func (w *window) continues(r *Reservation) bool {
	was, is := r.window.history, w.history
	return was != nil && is != nil && was.first == is.first && int16(was.continued-r.round) > 0
}
