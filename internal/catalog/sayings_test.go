package catalog

import (
	"maps"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

type q = state.Quota

// holder has the quotas of a limiter.
type holder struct {
	sayings
	quotas map[string]q
}

func newHolder() *holder { return &holder{quotas: make(map[string]q)} }

func (h *holder) say(name string, say func()) {
	is, has := h.quotas[name]
	h.Notice(name, is, has)
	say()
	delete(h.quotas, name)
	if is, has = h.Settle(name); has {
		h.quotas[name] = is
	}
	for _, copied := range h.Outdated(name) {
		h.say(copied, func() { h.Forget(copied) })
	}
}

// saved returns the quotas as a file has them.
func (h *holder) saved() (quotas map[string]q, said map[string]state.Said) {
	quotas = maps.Clone(h.quotas)
	said, _ = h.Stored(quotas)
	return quotas, said
}

// load is a Load of what another limiter has saved.
func (h *holder) load(learns bool, quotas map[string]q, said map[string]state.Said) {
	for name, is := range quotas {
		h.say(name, func() { h.Loaded(name, is, said[name], learns) })
	}
}

type step func(h *holder)

func program(is q) step { return func(h *holder) { h.say("m", func() { h.SetProgram("m", is) }) } }
func remove(h *holder)  { h.say("m", func() { h.Remove("m") }) }
func forget(h *holder)  { h.say("m", func() { h.Forget("m") }) }
func byHand(is q) step  { return func(h *holder) { h.quotas["m"] = is } }
func profile(is q) step { return func(h *holder) { h.say("m", func() { h.Supply("m", is) }) } }

func account(is q) step {
	return func(h *holder) {
		h.Resaid()
		h.say("m", func() { h.SetAccount("m", is, true) })
	}
}

func noAccount(h *holder) {
	h.Resaid()
	for _, name := range h.Changes(nil) {
		h.say(name, func() { h.SetAccount(name, q{}, false) })
	}
}

// report is a report of limits that are not zero.
func report(limits q) step {
	return func(h *holder) {
		next, has := h.quotas["m"]
		bounds := h.Bounds("m", next)
		for of := range state.InFlight {
			limit := *limits.Limit(of)
			if bound := *bounds.Limit(of); bound > 0 {
				limit = min(limit, bound)
			}
			if limit > 0 {
				*next.Limit(of) = limit
			}
		}
		if has && next == h.quotas["m"] {
			return
		}
		h.say("m", func() { h.Learn("m", next, "", q{}, q{}) })
	}
}

// file loads a file without origins.
func file(is q) step { return func(h *holder) { h.load(true, map[string]q{"m": is}, nil) } }

// fileOf loads a file that another limiter has saved after some steps.
func fileOf(steps ...step) step {
	return func(h *holder) {
		other := newHolder()
		for _, do := range steps {
			do(other)
		}
		quotas, said := other.saved()
		h.load(true, quotas, said)
	}
}

// withoutLearning is fileOf for a limiter that does not learn.
func withoutLearning(steps ...step) step {
	return func(h *holder) {
		other := newHolder()
		for _, do := range steps {
			do(other)
		}
		quotas, said := other.saved()
		h.load(false, quotas, said)
	}
}

// The table of precedence: what is said of a model, in some order, and what holds.
func TestPrecedence(t *testing.T) {
	rpm := func(n int) q { return q{MaxRPM: n} }
	none := q{MaxRPM: -1} // stands for no quota
	for _, tt := range []struct {
		name  string
		steps []step
		want  q
	}{
		{"nothing", nil, none},
		{"a profile", []step{profile(rpm(1))}, rpm(1)},
		{"a newer profile", []step{profile(rpm(1)), profile(rpm(2))}, rpm(2)},
		{"a file over a profile", []step{profile(rpm(1)), file(rpm(2))}, rpm(2)},
		{"a profile in a file yields to a profile", []step{profile(rpm(1)), fileOf(profile(rpm(2)))}, rpm(1)},
		{"and holds where there is none", []step{fileOf(profile(rpm(2)))}, rpm(2)},
		{"a file that was changed by hand", []step{profile(rpm(1)), func(h *holder) {
			other := newHolder()
			profile(rpm(2))(other)
			_, said := other.saved()
			h.load(true, map[string]q{"m": rpm(3)}, said)
		}}, rpm(3)},
		{"the account over a file and a profile", []step{profile(rpm(1)), file(rpm(2)), account(rpm(3))}, rpm(3)},
		{"a file after the account", []step{account(rpm(3)), file(rpm(2))}, rpm(3)},
		{"the account over what an earlier program said", []step{fileOf(program(rpm(2)), account(rpm(9))), account(rpm(3))}, rpm(3)},
		{"the account takes back", []step{profile(rpm(1)), file(rpm(2)), account(rpm(3)), noAccount}, rpm(2)},
		{"the account in a file over a profile", []step{profile(rpm(1)), fileOf(account(rpm(3)))}, rpm(3)},
		{"an outdated account in a file", []step{profile(rpm(1)), noAccount, fileOf(account(rpm(3)))}, rpm(1)},
		{"an account in a file that says nothing now", []step{profile(rpm(1)), fileOf(account(rpm(3))), noAccount}, rpm(1)},
		{"the program over all", []step{profile(rpm(1)), file(rpm(2)), account(rpm(3)), program(rpm(4))}, rpm(4)},
		{"in any order", []step{program(rpm(4)), account(rpm(3)), file(rpm(2))}, rpm(4)},
		{"but a profile that replaces it", []step{program(rpm(4)), profile(rpm(1))}, rpm(1)},
		{"by hand", []step{profile(rpm(1)), account(rpm(3)), byHand(rpm(4)), account(rpm(5))}, rpm(4)},
		{"open limits are the account's", []step{account(q{MaxRPM: 3, MaxTPM: 30}), program(rpm(4))}, q{MaxRPM: 4, MaxTPM: 30}},
		{"not those of files and profiles", []step{profile(q{MaxTPM: 10}), file(q{MaxTPM: 20}), program(rpm(4))}, rpm(4)},
		{"nor are those of the account theirs", []step{profile(q{MaxTPM: 10}), file(q{MaxTPM: 20}), account(rpm(4))}, rpm(4)},
		{"they are of what a file has of the account, until that speaks", []step{fileOf(account(q{MaxTPM: 30})), program(rpm(4))}, q{MaxRPM: 4, MaxTPM: 30}},
		{"unlimited as a whole", []step{account(q{MaxRPM: 3, MaxTPM: 30}), program(q{DayZone: "UTC"})}, q{DayZone: "UTC"}},
		{"the day of the program", []step{account(q{MaxTPD: 3, DayZone: "UTC"}), program(q{MaxRPD: 4})}, q{MaxRPD: 4, MaxTPD: 3}},
		{"the day of the account", []step{account(q{MaxTPD: 3, DayZone: "UTC"}), program(rpm(4))}, q{MaxRPM: 4, MaxTPD: 3, DayZone: "UTC"}},
		{"the burst of the program", []step{account(q{MaxTPM: 3, Burst: 5}), program(rpm(4))}, q{MaxRPM: 4, MaxTPM: 3}},
		{"the burst of the account", []step{account(q{MaxTPM: 3, Burst: 5}), program(q{MaxRPD: 4})}, q{MaxTPM: 3, MaxRPD: 4, Burst: 5}},

		{"taken back to the account", []step{profile(rpm(1)), file(rpm(2)), account(rpm(3)), program(rpm(4)), remove}, rpm(3)},
		{"past a file of which an earlier program may have said it", []step{profile(rpm(1)), file(rpm(2)), program(rpm(4)), remove, file(rpm(2))}, rpm(1)},
		{"to the profile", []step{profile(rpm(1)), program(rpm(4)), remove}, rpm(1)},
		{"to nothing", []step{program(rpm(4)), remove}, none},
		{"by hand", []step{profile(rpm(1)), byHand(rpm(4)), remove}, rpm(1)},
		{"nothing to take back", []step{profile(rpm(1)), account(rpm(3)), remove}, rpm(3)},
		{"a file does not bring it back", []step{program(rpm(4)), remove, fileOf(program(rpm(4)))}, none},
		{"nor what it says of an earlier program", []step{program(rpm(4)), remove, profile(rpm(1)), fileOf(program(rpm(5)), account(rpm(9)))}, rpm(9)},
		{"but another quota of a file holds", []step{program(rpm(4)), remove, file(rpm(5))}, rpm(5)},
		{"what an earlier program said", []step{fileOf(program(rpm(4))), remove, fileOf(program(rpm(4)))}, none},
		{"what it said, and this one, too", []step{fileOf(program(rpm(4))), program(rpm(4)), remove}, none},
		{"set again", []step{program(rpm(4)), remove, program(rpm(4)), fileOf(program(rpm(4)))}, rpm(4)},

		{"a report lowers the program's", []step{program(rpm(4)), report(rpm(2))}, rpm(2)},
		{"and does not raise it", []step{program(rpm(4)), report(rpm(2)), report(rpm(9))}, rpm(4)},
		{"lowers the account's", []step{account(rpm(4)), report(rpm(2))}, rpm(2)},
		{"and does not raise it", []step{account(rpm(4)), report(rpm(9))}, rpm(4)},
		{"lowers open limits", []step{program(rpm(4)), report(q{MaxTPM: 7}), report(q{MaxTPM: 9})}, q{MaxRPM: 4, MaxTPM: 9}},
		{"each by itself", []step{program(rpm(4)), account(q{MaxTPM: 5}), report(q{MaxRPM: 3, MaxTPM: 9})}, q{MaxRPM: 3, MaxTPM: 5}},
		{"raises a profile's", []step{profile(rpm(4)), report(rpm(9))}, rpm(9)},
		{"raises a file's", []step{file(rpm(4)), report(rpm(9))}, rpm(9)},
		{"raises a file's of an account", []step{fileOf(account(rpm(4))), report(rpm(9))}, rpm(9)},
		{"a lower account after it", []step{profile(rpm(4)), report(rpm(9)), account(rpm(5))}, rpm(5)},
		{"a higher one", []step{profile(rpm(4)), report(rpm(3)), account(rpm(5))}, rpm(3)},
		{"the program starts afresh", []step{profile(rpm(4)), report(rpm(3)), program(rpm(5))}, rpm(5)},
		{"also where it is taken back", []step{profile(rpm(4)), program(rpm(5)), report(rpm(3)), remove}, rpm(4)},
		{"forgotten", []step{profile(rpm(4)), report(rpm(9)), forget}, rpm(4)},
		{"of a model without a quota", []step{report(rpm(9))}, rpm(9)},
		{"forgotten", []step{report(rpm(9)), forget}, none},

		{"stored", []step{fileOf(profile(rpm(4)), report(rpm(9)))}, rpm(9)},
		{"with a newer profile", []step{profile(rpm(5)), fileOf(profile(rpm(4)), report(rpm(9)))}, rpm(9)},
		{"of the program", []step{fileOf(program(rpm(4)), report(rpm(2)))}, rpm(2)},
		{"below the program's", []step{program(rpm(5)), fileOf(program(rpm(5)), report(rpm(2)))}, rpm(5)},
		{"forgotten after it was loaded", []step{fileOf(program(rpm(4)), report(rpm(2))), forget}, rpm(4)},
		{"where nothing is learned", []step{withoutLearning(profile(rpm(4)), report(rpm(9)))}, rpm(4)},
		{"of the program", []step{withoutLearning(program(rpm(4)), report(q{MaxTPM: 2}))}, rpm(4)},
		{"of a model without a quota", []step{withoutLearning(report(rpm(9)))}, none},
		{"where more was learned than counts", []step{withoutLearning(profile(rpm(4)), report(rpm(9)), account(rpm(5)))}, rpm(5)},
		{"twice", []step{fileOf(fileOf(profile(rpm(4)), report(rpm(9))))}, rpm(9)},
	} {
		h := newHolder()
		for _, do := range tt.steps {
			do(h)
		}
		got, has := h.quotas["m"]
		if !has {
			got = none
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Corrected copies of another quota go with it, unless the program has replaced them, and are not
// stored.
func TestCopies(t *testing.T) {
	h := newHolder()
	h.say("*", func() { h.SetProgram("*", q{MaxRPM: 5}) })
	for _, name := range []string{"copy", "replaced"} {
		bounds := h.Bounds("*", h.quotas["*"])
		h.say(name, func() { h.Learn(name, q{MaxRPM: 4}, "*", h.quotas["*"], bounds) })
		if got := h.Bounds(name, h.quotas[name]); got.MaxRPM != 5 {
			t.Errorf("the bounds of a copy are %+v", got)
		}
	}
	h.quotas["replaced"] = q{MaxRPM: 8}
	if quotas, said := h.saved(); len(quotas) != 2 || len(said) != 0 {
		t.Errorf("stored: %v, %v", quotas, said)
	}
	if got := h.Origins("copy", h.quotas["copy"]); got[state.RPM] != state.Learned || got[state.TPM] != state.Learned {
		t.Errorf("a copy is of %v", got)
	}
	h.say("*", func() { h.SetProgram("*", q{MaxRPM: 5}) })
	if want := map[string]q{"*": {MaxRPM: 5}, "replaced": {MaxRPM: 8}}; !maps.Equal(h.quotas, want) {
		t.Errorf("after it was set again: %v", h.quotas)
	}
	if got := h.Learned(); len(got) != 0 {
		t.Errorf("learned: %v", got)
	}
}

// Who said each limit, and which quotas a database may have from others.
func TestOrigins(t *testing.T) {
	h := newHolder()
	for _, do := range []step{account(q{MaxRPM: 9, MaxTPM: 30, MaxTPD: 8}), program(q{MaxRPM: 4}), report(q{MaxTPM: 20})} {
		do(h)
	}
	want := map[state.Dimension]state.Origin{state.RPM: state.Program, state.TPM: state.Learned, state.TPD: state.Account, state.RPD: state.Program}
	got := h.Origins("m", h.quotas["m"])
	for of, origin := range want {
		if got[of] != origin {
			t.Errorf("%s is of %s, want %s", state.Limits[of].Field, state.OriginKeys[got[of]], state.OriginKeys[origin])
		}
	}
	if got := h.Origins("m", q{MaxRPM: 1}); got != [state.Dimensions]state.Origin{} {
		t.Errorf("by hand: %v", got)
	}
	h.say("p", func() { h.SupplyBelow("p", q{MaxRPM: 1}) })
	h.load(true, map[string]q{"f": {MaxRPM: 2}}, nil)
	quotas := maps.Clone(h.quotas)
	if said, supplied := h.Stored(quotas); !supplied["p"] || !supplied["f"] || supplied["m"] || len(said) != 2 {
		t.Errorf("stored: %v, %v", said, supplied)
	}
	for name, want := range map[string]state.Origin{"p": state.Profile, "f": state.File} {
		if got := h.Origins(name, h.quotas[name]); got[state.RPM] != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What a store of before has of a model is what the program and the account said.
func TestShared(t *testing.T) {
	rpm := func(n int) q { return q{MaxRPM: n} }
	both := state.SaidBy(state.Program, rpm(1))
	both.Set(state.Account, q{MaxTPM: 2})
	since := both
	since.Set(state.Program, rpm(7))
	for _, tt := range []struct {
		name   string
		stored q
		from   state.Said
		want   state.Said
	}{
		{"without origins", rpm(5), state.Said{}, state.SaidBy(state.Program, rpm(5))},
		{"of both", q{MaxRPM: 1, MaxTPM: 2}, both, both},
		{"of an older process since", rpm(7), both, since},
		{"a profile, when it was not shared", rpm(5), state.SaidBy(state.Profile, rpm(5)), state.Said{}},
		{"a file, when it was not shared", rpm(5), state.SaidBy(state.File, rpm(5)), state.SaidBy(state.Program, rpm(5))},
	} {
		if said := SharedSaying(tt.stored, tt.from); said != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, said.Text(), tt.want.Text())
		}
	}
}
