package catalog_test

import (
	"maps"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

type (
	q       = state.Quota
	quotas  = map[string]state.Quota
	step    func(c *catalog.Catalog) []catalog.Change
	members = map[string][]string
)

func rpm(n int) q { return q{MaxRPM: n} }

// pool returns the counted name of a pool.
func pool(name string) string { return state.PoolName(name) }

func program(name string, is q) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.SetQuota(name, is) }
}

func remove(name string) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.RemoveQuota(name) }
}

func byHand(name string, is q) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.Notice(name, is, true) }
}

func removedByHand(name string) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.Notice(name, q{}, false) }
}

func account(all quotas) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.SetAccount(all) }
}

func profile(rows ...catalog.Row) step {
	return func(c *catalog.Catalog) []catalog.Change {
		return c.AddProfile(&catalog.Profile{Provider: "maker", Rows: rows})
	}
}

func profileBelow(rows ...catalog.Row) step {
	return func(c *catalog.Catalog) []catalog.Change {
		return c.AddProfile(&catalog.Profile{Provider: "maker", Rows: rows, Below: true})
	}
}

func file(all quotas) step { return fileOf(catalog.File{Quotas: all}) }

func fileOf(f catalog.File) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.Loaded(&f, true) }
}

// stored is the file of another catalog.
func stored(steps ...step) step {
	return func(c *catalog.Catalog) []catalog.Change {
		f, _ := after(steps...).Stored()
		return c.Loaded(&f, true)
	}
}

// report is a report of a provider that is learned from.
func report(name string, limits state.ReportedLimits) step {
	return func(c *catalog.Catalog) []catalog.Change {
		if next, differs := c.Lesson(name, &limits, 100); differs {
			return c.Learn(name, next)
		}
		return nil
	}
}

func reportRPM(name string, limit int) step {
	return report(name, state.ReportedLimits{state.RPM: {Limit: limit}})
}

func forget(name string) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.ForgetLearned(name) }
}

func setPool(name string, models ...string) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.SetPool(pool(name), models, rpm(50)) }
}

func removePool(name string) step {
	return func(c *catalog.Catalog) []catalog.Change { return c.RemovePool(pool(name)) }
}

func after(steps ...step) *catalog.Catalog {
	c := new(catalog.Catalog)
	for _, do := range steps {
		do(c)
	}
	return c
}

func image(c *catalog.Catalog) string { return string(c.AppendImage(nil)) }

// reread returns the catalog that is read from the image of c.
func reread(t *testing.T, c *catalog.Catalog) *catalog.Catalog {
	t.Helper()
	r := wire.NewReader(c.AppendImage(nil))
	again, err := catalog.Read(r)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		t.Fatalf("the image is not read: %v", err)
	}
	return again
}

// Which quota covers a name: its own, that of the longest pattern, or that of all.
func TestCover(t *testing.T) {
	c := after(
		program("*", rpm(1)), program("gpt-*", rpm(2)), program("gpt-4*", rpm(3)), program("*4o*", rpm(4)),
		program("gpt-4o", rpm(5)), setPool("gpt-4*", "gpt-4"), program("b*c", rpm(6)), program("a*c", rpm(7)),
	)
	for _, tt := range []struct {
		name, quota string
		limit       int
		listed      bool
	}{
		{"gpt-4o", "gpt-4o", 5, true},
		{"gpt-4.1", "gpt-4*", 3, false},
		{"gpt-4o-mini", "gpt-4*", 3, false}, // longer than *4o*
		{"gpt-5", "gpt-*", 2, false},
		{"llama-4o", "*4o*", 4, false},
		{"llama", "*", 1, false},
		{"", "*", 1, false},
		{"*", "*", 1, true},
		{"gpt-4*", "gpt-4*", 3, false}, // a pattern is not a model
		{pool("gpt-4*"), pool("gpt-4*"), 50, true},
	} {
		quota, is, ok := c.Cover(tt.name)
		if quota != tt.quota || is != rpm(tt.limit) || !ok {
			t.Errorf("%q is covered by %q, %+v, %t, want %q", tt.name, quota, is, ok, tt.quota)
		}
		if is, own := c.Quota(tt.name); own != (tt.quota == tt.name) || own && is != rpm(tt.limit) {
			t.Errorf("the quota of %q alone is %+v, %t", tt.name, is, own)
		}
		if got := c.IsListed(tt.name); got != tt.listed {
			t.Errorf("%q is listed: %t", tt.name, got)
		}
	}
	for _, name := range []string{"*", "gpt-4*"} {
		c.RemoveQuota(name)
	}
	for name, want := range map[string]string{"gpt-4.1": "gpt-*", "llama": "*", pool("none"): pool("none")} {
		quota, is, ok := c.Cover(name)
		if quota != want || ok != (is != q{}) || ok != (want == "gpt-*") {
			t.Errorf("then %q is covered by %q, %+v, %t, want %q", name, quota, is, ok, want)
		}
	}
	if want := []string{"*4o*", "a*c", "b*c", "gpt-*", "gpt-4o"}; !slices.Equal(c.Names(), want) {
		t.Errorf("the names are %q, want %q", c.Names(), want)
	}
}

// Who wins, of all who say something of the quota of a model. The type sayings has the whole
// table; these rows show that each saying comes to it.
func TestWhoWins(t *testing.T) {
	row := func(limit int) catalog.Row { return catalog.Row{Name: "m", Quota: rpm(limit)} }
	none := q{MaxRPM: -1} // stands for no quota
	for _, tt := range []struct {
		name  string
		steps []step
		want  q
	}{
		{"nothing", nil, none},
		{"a profile", []step{profile(row(1))}, rpm(1)},
		{"a file over a profile", []step{profile(row(1)), file(quotas{"m": rpm(2)})}, rpm(2)},
		{"the account over both", []step{profile(row(1)), file(quotas{"m": rpm(2)}), account(quotas{"m": rpm(3)})}, rpm(3)},
		{"the program over all", []step{account(quotas{"m": rpm(3)}), program("m", rpm(4)), file(quotas{"m": rpm(2)})}, rpm(4)},
		{"its open limits are the account's", []step{account(quotas{"m": {MaxTPM: 30}}), program("m", rpm(4))}, q{MaxRPM: 4, MaxTPM: 30}},
		{"a profile in its place", []step{program("m", rpm(4)), profile(row(1))}, rpm(1)},
		{"a profile below it", []step{program("m", rpm(4)), profileBelow(row(1))}, rpm(4)},
		{"which holds when it is gone", []step{program("m", rpm(4)), profileBelow(row(1)), remove("m")}, rpm(1)},
		{"the account takes back", []step{profile(row(1)), account(quotas{"m": rpm(3)}), account(nil)}, rpm(1)},
		{"and what a file has of it", []step{profile(row(1)), account(nil), stored(account(quotas{"m": rpm(3)}))}, rpm(1)},
		{"a file does not bring back", []step{program("m", rpm(4)), remove("m"), stored(program("m", rpm(4)))}, none},
		{"by hand", []step{account(quotas{"m": {MaxTPM: 30}}), byHand("m", rpm(4))}, rpm(4)},
		{"by hand, as the program's", []step{account(quotas{"m": {MaxTPM: 30}}), byHand("m", rpm(4)), account(nil)}, rpm(4)},
		{"removed by hand", []step{program("m", rpm(4)), removedByHand("m")}, none},
		{"removed by hand, as never said", []step{profile(row(1)), removedByHand("m"), remove("m")}, none},
		{"a report lowers", []step{program("m", rpm(4)), reportRPM("m", 2)}, rpm(2)},
		{"and does not raise the program's", []step{program("m", rpm(4)), reportRPM("m", 9)}, rpm(4)},
		{"but a profile's", []step{profile(row(1)), reportRPM("m", 9)}, rpm(9)},
		{"forgotten", []step{profile(row(1)), reportRPM("m", 9), forget("m")}, rpm(1)},
		{"all forgotten", []step{profile(row(1)), reportRPM("m", 9), forget("")}, rpm(1)},
		{"of nothing", []step{reportRPM("m", 9)}, rpm(9)},
		{"of nothing, forgotten", []step{reportRPM("m", 9), forget("")}, none},
		{"stored", []step{stored(profile(row(1)), reportRPM("m", 9))}, rpm(9)},
		{"a report corrects a copy of the pattern's", []step{program("m*", rpm(4)), reportRPM("m", 3)}, rpm(3)},
		{"which it does not exceed", []step{program("m*", rpm(4)), reportRPM("m", 3), reportRPM("m", 9)}, rpm(4)},
	} {
		c := after(tt.steps...)
		_, got, has := c.Cover("m")
		if !has {
			got = none
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// What was learned of models without a quota of their own goes as soon as a quota that covers them
// is said anew.
func TestOutdated(t *testing.T) {
	lessons := []step{reportRPM("alone", 7), program("*", rpm(9)), program("m*", rpm(5)), reportRPM("m1", 3), reportRPM("x", 8)}
	for _, tt := range []struct {
		name string
		then step
		want quotas
	}{
		{"the pattern again", program("m*", rpm(5)), quotas{"*": rpm(9), "m*": rpm(5), "x": rpm(8)}},
		{"its removal", remove("m*"), quotas{"*": rpm(9), "x": rpm(8)}},
		{"a longer pattern", program("m1*", rpm(4)), quotas{"*": rpm(9), "m*": rpm(5), "m1*": rpm(4), "x": rpm(8)}},
		{"a shorter one", program("*1", rpm(4)), quotas{"*": rpm(9), "m*": rpm(5), "*1": rpm(4), "x": rpm(8)}},
		{"one that is shorter still", program("*", rpm(9)), quotas{"*": rpm(9), "m*": rpm(5), "m1": rpm(3)}},
		{"a pool of the name of a pattern", setPool("*", "x"), quotas{"*": rpm(9), "m*": rpm(5), "m1": rpm(3), "x": rpm(8), pool("*"): rpm(50)}},
		{"a file", file(quotas{"x*": rpm(6)}), quotas{"*": rpm(9), "m*": rpm(5), "m1": rpm(3), "x*": rpm(6)}},
		{"a quota of its own", program("x", rpm(6)), quotas{"*": rpm(9), "m*": rpm(5), "m1": rpm(3), "x": rpm(6)}},
		{"all forgotten", forget(""), quotas{"*": rpm(9), "m*": rpm(5)}},
		{"by hand, until it is said", byHand("m*", rpm(2)), quotas{"*": rpm(9), "m*": rpm(2), "m1": rpm(3), "x": rpm(8)}},
	} {
		c := after(lessons...)
		tt.then(c)
		if got := quotasOf(c); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What was learned of a pool without a quota stays when a pool is set whose name looks like a
// pattern that covers it, and when a file is loaded.
func TestLessonsOfPoolsStay(t *testing.T) {
	learned := []step{program("*", rpm(9)), fileOf(catalog.File{Pools: members{pool("p"): {"m"}}}), reportRPM(pool("p"), 3)}
	for name, then := range map[string]step{"a pool": setPool("*", "m"), "a file": file(quotas{"x": rpm(9)})} {
		if is, _ := after(append(learned, then)...).Pool(pool("p")); is.Quota != rpm(3) {
			t.Errorf("after %s: %+v", name, is)
		}
	}
}

// A lesson that a file has of a model alone does not stand beside a quota that covers it here.
func TestLoadedLessonIsCovered(t *testing.T) {
	c := after(program("*", rpm(9)), stored(reportRPM("m", 3)))
	if got := quotasOf(c); !maps.Equal(got, quotas{"*": rpm(9)}) {
		t.Errorf("beside a quota of all: %v", got)
	}
	if got := quotasOf(after(stored(reportRPM("m", 3)))); !maps.Equal(got, quotas{"m": rpm(3)}) {
		t.Errorf("beside none: %v", got)
	}
}

func quotasOf(c *catalog.Catalog) quotas {
	all := make(quotas)
	for _, name := range slices.Concat(c.Names(), c.PoolNames()) {
		if quota, is, ok := c.Cover(name); ok && quota == name {
			all[name] = is
		}
	}
	return all
}

// A saying returns each name of which something was said, also where its quota stays.
func TestChanges(t *testing.T) {
	c := after(program("m*", rpm(5)), reportRPM("m1", 3), reportRPM("m2", 2))
	changed := func(name string, was, is int) catalog.Change {
		return catalog.Change{Name: name, Was: rpm(was), Is: rpm(is), Had: was != 0, Has: is != 0}
	}
	for _, tt := range []struct {
		name string
		do   step
		want []catalog.Change
	}{
		{"a new pattern", program("m*", rpm(6)), []catalog.Change{changed("m*", 5, 6), changed("m1", 3, 0), changed("m2", 2, 0)}},
		{"the same again", program("m*", rpm(6)), []catalog.Change{changed("m*", 6, 6)}},
		{"a file with nothing new", file(quotas{"m*": rpm(7)}), nil},
		{"a file", file(quotas{"b": rpm(1), "a": rpm(2)}), []catalog.Change{changed("a", 0, 2), changed("b", 0, 1)}},
		{"an account", account(quotas{"b": rpm(3), "c": rpm(4)}), []catalog.Change{changed("b", 1, 3), changed("c", 0, 4)}},
		{"the same account", account(quotas{"b": rpm(3), "c": rpm(4)}), nil},
		{"another account", account(quotas{"c": rpm(4)}), []catalog.Change{changed("b", 3, 1)}},
		{"by hand", byHand("a", rpm(5)), []catalog.Change{changed("a", 2, 5)}},
		{"removed by hand", removedByHand("a"), []catalog.Change{changed("a", 5, 0)}},
		{"nothing to forget", forget("b"), []catalog.Change{changed("b", 1, 1)}},
		{"nothing to forget of any", forget(""), nil},
		{"a pool", setPool("p", "b"), []catalog.Change{changed(pool("p"), 0, 50)}},
		{"no pool", func(c *catalog.Catalog) []catalog.Change { return c.SetPool("p", nil, rpm(1)) }, nil},
		{"a pool by hand", byHand(pool("p"), rpm(1)), nil},
		{"a pool removed", removePool("p"), []catalog.Change{changed(pool("p"), 50, 0)}},
	} {
		version := c.Version()
		got := tt.do(c)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		for _, change := range got {
			if change.Changed() && c.Version() == version {
				t.Errorf("%s: the version stays at %d", tt.name, version)
			}
		}
	}
}

// A correction needs room where it makes a quota of its own.
func TestLessonNeedsRoom(t *testing.T) {
	c := after(program("*", rpm(9)), program("m", rpm(9)), setPool("p", "m"))
	report := &state.ReportedLimits{state.RPM: {Limit: 4}}
	c.SetPool(pool("q"), nil, rpm(9))
	c.RemovePool(pool("q"))
	for _, tt := range []struct {
		name    string
		most    int
		differs bool
	}{
		{"m", 0, true}, {pool("p"), 0, true}, {"x", 2, false}, {"x", 3, true}, {"", 9, false}, {"*", 9, false},
	} {
		next, differs := c.Lesson(tt.name, report, tt.most)
		if differs != tt.differs || differs && next != rpm(4) {
			t.Errorf("%q with room for %d: %+v, %t", tt.name, tt.most, next, differs)
		}
	}
	if _, differs := c.Lesson("m", &state.ReportedLimits{state.RPM: {Limit: 10}}, 9); differs {
		t.Error("a report exceeds the program's quota")
	}
	if _, differs := after(program("m", rpm(-1))).Lesson("m", report, 9); differs {
		t.Error("an invalid quota is corrected")
	}
}

// Who said each limit, and what the account says.
func TestOrigins(t *testing.T) {
	c := after(account(quotas{"m*": {MaxRPM: 5, MaxTPM: 6}}), program("m*", q{MaxTPD: 7}), reportRPM("m*", 3))
	quota, got := c.Origins("m1")
	want := [state.Dimensions]state.Origin{state.RPM: state.Learned, state.TPM: state.Account}
	if quota != "m*" || got != want {
		t.Errorf("%q: %v, want %v", quota, got, want)
	}
	if got := c.Account(); !maps.Equal(got, quotas{"m*": {MaxRPM: 5, MaxTPM: 6}}) {
		t.Errorf("the account: %v", got)
	}
}
