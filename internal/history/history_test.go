package history

import "testing"

func TestContinuedWindowHasEarlierRounds(t *testing.T) {
	was := New()
	is := was.Continue(3)
	for round, want := range []bool{true, true, true, false, false} {
		if has := is.Has(was, uint16(round)); has != want {
			t.Errorf("it has the charges of round %d is %v", round, has)
		}
	}
	if New().Has(was, 0) || is.Has(New(), 0) || is.Has(nil, 0) || (*History)(nil).Has(was, 0) {
		t.Error("a window has charges of one that it does not continue")
	}
}

// All windows that continue each other have the charges that were placed early enough.
func TestLaterWindowsHaveThemToo(t *testing.T) {
	first := New()
	second := first.Continue(2)
	third := second.Continue(1)
	if !third.Has(first, 1) || third.Has(first, 2) {
		t.Error("the third window has not what the first handed on")
	}
	if !third.Has(second, 0) || third.Has(second, 1) {
		t.Error("the third window has not what the second handed on")
	}
}

func TestRoundsRunOver(t *testing.T) {
	const last = 1<<16 - 1
	was := New()
	is := was.Continue(1) // that is two rounds later than last
	if !is.Has(was, last) || !is.Has(was, 0) || is.Has(was, 1) || is.Has(was, 2) {
		t.Error("rounds are not told apart where the counter runs over")
	}
}

func TestLoadContinuesTheLastSaveThatSucceeded(t *testing.T) {
	h := New()
	tests := []struct {
		name  string
		notes func(s *Saves)
		saved int
		round uint16 // the first that the file does not have; 0 where it has nothing
	}{
		{"none", func(*Saves) {}, 0, 0},
		{"one", func(s *Saves) { s.Note(1, 0, h, 1) }, 1, 1},
		{"one that failed", func(s *Saves) { s.Note(1, 0, h, 1) }, 0, 0},
		{"the second", func(s *Saves) { s.Note(1, 0, h, 1); s.Note(2, 1, h, 2) }, 2, 2},
		{"the first, because the second failed", func(s *Saves) { s.Note(1, 0, h, 1); s.Note(2, 1, h, 2) }, 1, 1},
		{"the first, because two failed", func(s *Saves) { s.Note(1, 0, h, 1); s.Note(2, 1, h, 2); s.Note(3, 1, h, 3) }, 1, 1},
		{"one that met the model only earlier", func(s *Saves) { s.Note(1, 0, h, 1) }, 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Saves
			tt.notes(&s)
			is := s.Load(tt.saved, 0)
			if (is != nil) != (tt.round != 0) {
				t.Fatalf("the file has charges is %v", is != nil)
			}
			if is == nil {
				return
			}
			if !is.Has(h, tt.round-1) || is.Has(h, tt.round) {
				t.Errorf("it has not just the rounds before %d", tt.round)
			}
			again := s.Load(tt.saved, 0)
			if again == nil || !again.Has(h, tt.round-1) {
				t.Error("a Load of the same file again has not the same charges")
			}
		})
	}
}
