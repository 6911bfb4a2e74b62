// Package history tells which charges of a window are in another window that continues it: the one
// that Load makes of the file of Persist, or the one that is made where a program changed an entry
// of State by hand. A reservation looks for its charge only there: elsewhere a charge of the same
// instant and the same tokens is that of another call.
//
// A window counts its saves in rounds. The counter may run over: rounds are told apart as long as
// they are fewer than 1<<15 apart.
package history

// History is that of a window, among those that continue each other. Histories are not safe for
// concurrent use.
type History struct {
	first     *History // of the windows that continue each other; itself for the first of them
	continued uint16   // the charges placed in earlier rounds are in the window that continues it
}

// New returns the history of a window that continues no other.
func New() *History {
	h := new(History)
	h.first = h
	return h
}

// Continue returns the history of a window that has the charges which were placed before a round
// of the window of h.
func (h *History) Continue(round uint16) *History {
	h.continued = round
	return &History{first: h.first}
}

// Has reports whether a window of the history h has the charges of a round of another window, whose
// history is was, unless they have left since. Either may be nil, for a window without one.
func (h *History) Has(was *History, round uint16) bool {
	return was != nil && h != nil && was.first == h.first && int16(was.continued-round) > 0
}

// Saves is what of a model is in the file: the notes of the last save that met the model, and of
// the last one before it that succeeded, if it is another. The zero value is nothing.
type Saves struct{ last, before note }

// note says what a save saved of a model.
type note struct {
	save    int      // which it was
	history *History // of the window that it met; nil for none
	round   uint16   // the charges placed in earlier rounds of that are saved
}

// Note notes that the save under way meets a window, with the charges placed before a round. saved
// is the last save that succeeded.
func (s *Saves) Note(save, saved int, h *History, round uint16) {
	if s.last.save == saved {
		s.before = s.last
	}
	s.last = note{save, h, round}
}

// Load returns the history of a window that was made of what the last save that succeeded saved,
// and that is in the given round; nil where the file has no charge made here.
func (s *Saves) Load(saved int, round uint16) *History {
	from := s.last
	if from.save != saved {
		from = s.before
	}
	if from.history == nil || from.save != saved {
		return nil
	}
	h := from.history.Continue(from.round)
	s.last = note{saved, h, round} // for a Load of the same file again
	return h
}
