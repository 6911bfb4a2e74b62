package catalog_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// poolsOf returns the pools of a model as text.
func poolsOf(c *catalog.Catalog, counted, asked string) string {
	var names []string
	for _, name := range c.Pools(counted, asked) {
		name, _ = state.PoolOf(name)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// Which pools a model is in, by the name under which it is counted and the one that was asked for,
// and whether one of them names it.
func TestPools(t *testing.T) {
	c := after(
		setPool("z", "gpt-4"), setPool("a", "gpt-*"), setPool("every", "*"), setPool("latest", "gpt-4-latest"),
		setPool("none"), setPool("twice", "gpt-4", "*4"),
	)
	for _, tt := range []struct {
		counted, asked, want string
		named                bool
	}{
		{"gpt-4", "gpt-4", "a every twice z", true},
		{"gpt-4", "gpt-4-latest", "a every latest twice z", true},
		{"gpt-5", "gpt-5", "a every", true},
		{"llama", "llama", "every", false},
		{"llama", "gpt-5", "a every", true},
	} {
		for range 2 { // from the cache, too
			if got := poolsOf(c, tt.counted, tt.asked); got != tt.want {
				t.Errorf("%s, asked for as %s, is in %q, want %q", tt.counted, tt.asked, got, tt.want)
			}
			if got := c.NamesModel(tt.counted, tt.asked); got != tt.named {
				t.Errorf("%s, asked for as %s, is named: %t", tt.counted, tt.asked, got)
			}
		}
	}
	fileOf(catalog.File{Pools: members{pool("late"): {"gpt-4"}}})(c)
	if got := poolsOf(c, "gpt-4", "gpt-4"); got != "a every late twice z" {
		t.Errorf("after a file gpt-4 is in %q", got)
	}
	if c := after(program("m", rpm(1))); c.Pools("m", "m") != nil || c.NamesModel("m", "m") {
		t.Error("without pools a model is in one")
	}
}

// More models are asked for than the cache has places.
func TestPoolsOfManyModels(t *testing.T) {
	c := after(setPool("odd", "*1", "*3", "*5", "*7", "*9"), setPool("long", strings.Repeat("x", 300)+"*"))
	for n := range 20_000 {
		odd := strings.Repeat("odd", n%2)
		name := fmt.Sprint(n)
		if got := poolsOf(c, name, name); got != odd {
			t.Fatalf("%s is in %q, want %q", name, got, odd)
		}
		if got := poolsOf(c, "m", name); got != odd {
			t.Fatalf("m, asked for as %s, is in %q, want %q", name, got, odd)
		}
		if got := poolsOf(c, name, "m"); got != odd {
			t.Fatalf("%s, asked for as m, is in %q, want %q", name, got, odd)
		}
	}
	if name := strings.Repeat("x", 301); poolsOf(c, name, name) != "long" {
		t.Error("a long name is not found")
	}
}

// group is a profile of two models and a pattern with one bucket, and a model with its own.
var group = []catalog.Row{
	{Name: "opus-5*", Group: "opus", Quota: rpm(50)}, {Name: "opus-4", Group: "opus", Quota: rpm(50)},
	{Name: "haiku", Quota: rpm(80)}, {Name: "sonnet", Group: "sonnet", Quota: rpm(70)},
}

// A group of a profile is a pool of those models that have its quota.
func TestProvidedPools(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		want  string // the pools of opus-4, opus-5-x, sonnet and llama
	}{
		{"the profile", nil, "maker/opus, maker/opus, , "},
		{"the same quota, but the program's", []step{program("opus-4", rpm(50))}, ", maker/opus, , "},
		{"taken back", []step{program("opus-4", rpm(50)), remove("opus-4")}, "maker/opus, maker/opus, , "},
		{"by hand", []step{byHand("opus-4", rpm(9))}, ", maker/opus, , "},
		{"by hand the same", []step{byHand("opus-4", rpm(50))}, "maker/opus, maker/opus, , "},
		{"the account's", []step{account(quotas{"opus-5*": rpm(9)})}, "maker/opus, , , "},
		{"a file's", []step{file(quotas{"opus-5*": rpm(9)})}, "maker/opus, , , "},
		{"corrected", []step{reportRPM("opus-4", 9), reportRPM("opus-5-x", 9)}, "maker/opus, maker/opus, , "},
		{"one that the program has replaced", []step{setPool("maker/opus", "llama")}, ", , , maker/opus"},
		{"and has removed", []step{setPool("maker/opus", "llama"), removePool("maker/opus")}, "maker/opus, maker/opus, , "},
		{"another profile", []step{profile(catalog.Row{Name: "s*", Group: "s", Quota: rpm(9)})}, "maker/opus, maker/opus, , "},
		{"one beside it", []step{setPool("mine", "opus-4")}, "maker/opus mine, maker/opus, , "},
		{"a row that leaves its group", []step{profile(catalog.Row{Name: "opus-4", Quota: rpm(50)})}, ", maker/opus, , "},
		{"a group of one pattern", []step{profile(catalog.Row{Name: "llama*", Group: "llama", Quota: rpm(9)})}, "maker/opus, maker/opus, , maker/llama"},
		{"a group of one row after that", []step{profile(catalog.Row{Name: "opus-4", Group: "opus", Quota: rpm(9)})}, "maker/opus, maker/opus, , "},
	} {
		c := after(append([]step{profile(group...)}, tt.steps...)...)
		var got []string
		for _, name := range []string{"opus-4", "opus-5-x", "sonnet", "llama"} {
			got = append(got, poolsOf(c, name, name))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if tt.want == "maker/opus, maker/opus, , " && c.NamesModel("opus-4", "opus-4") {
			t.Errorf("%s: the pool of a profile names a model", tt.name)
		}
	}
}

func TestPool(t *testing.T) {
	c := after(profile(group...), setPool("p", "b", "a*"), fileOf(catalog.File{Pools: members{pool("p"): {"x"}, pool("f"): {"y"}, "no pool": {"z"}}}))
	for name, want := range map[string]catalog.Pool{
		pool("p"):          {Members: []string{"b", "a*"}, Quota: rpm(50)},
		pool("f"):          {Members: []string{"y"}},
		pool("maker/opus"): {Members: []string{"opus-4", "opus-5*"}, Quota: rpm(50), Provided: true},
	} {
		if got, ok := c.Pool(name); !ok || !c.IsPool(name) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %t, want %+v", name, got, ok, want)
		}
	}
	if want := []string{pool("f"), pool("maker/opus"), pool("p")}; !slices.Equal(c.PoolNames(), want) {
		t.Errorf("the pools are %q", c.PoolNames())
	}
	if _, ok := c.Pool(pool("maker/sonnet")); ok || c.IsPool(pool("maker/sonnet")) {
		t.Error("a group of one model is a pool")
	}
	if !c.HasPools() || after(program("m", rpm(1))).HasPools() {
		t.Error("HasPools is wrong")
	}
	is, _ := c.Pool(pool("p"))
	is.Members[0] = "changed"
	if poolsOf(c, "b", "b") != "p" || poolsOf(after(setPool("p", "b")), "changed", "changed") != "" {
		t.Error("the members of a pool can be changed")
	}
}

// A pool that was removed comes back by the program alone. 10,000 of them are remembered, the
// latest.
func TestRemovedPoolsStay(t *testing.T) {
	of := func(name string) step { return fileOf(catalog.File{Pools: members{pool(name): {"m"}}}) }
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"of the program", []step{setPool("p", "m"), removePool("p"), of("p")}, ""},
		{"of a file", []step{of("p"), removePool("p"), of("p")}, ""},
		{"set again", []step{setPool("p", "m"), removePool("p"), setPool("p", "m"), of("p")}, "p"},
		{"never there", []step{removePool("p"), of("p")}, "p"},
		{"of a profile, which was never removed", []step{profile(group...), removePool("maker/opus"), of("maker/opus")}, "maker/opus"},
		{"another", []step{setPool("p", "m"), removePool("p"), of("q")}, "q"},
	} {
		if got := poolsOf(after(tt.steps...), "m", "m"); got != tt.want {
			t.Errorf("%s: in %q, want %q", tt.name, got, tt.want)
		}
	}
	once := image(after(setPool("p", "m")))
	if again := image(after(setPool("p", "m"), removePool("p"), setPool("p", "m"))); again != once {
		t.Errorf("set again, it is %q, want %q", again, once)
	}
	c := new(catalog.Catalog)
	all := make(members)
	for n := range 10_001 {
		name := fmt.Sprint(n)
		setPool(name)(c)
		removePool(name)(c)
		all[pool(name)] = nil
	}
	fileOf(catalog.File{Pools: all})(c)
	if got := c.PoolNames(); !slices.Equal(got, []string{pool("0")}) {
		t.Errorf("the file brought back %d pools, %q", len(got), got)
	}
}

// What a report on a model tells of the model and of its pools.
func TestReports(t *testing.T) {
	limit := func(n int) state.ReportedLimit {
		return state.ReportedLimit{Limit: n, Remaining: n / 2, HasRemaining: true}
	}
	type limits = state.ReportedLimits
	both := limits{state.RPM: limit(100), state.TPM: limit(900)}
	pools := func(quotas ...q) (steps []step) {
		for i, is := range quotas {
			steps = append(steps, func(c *catalog.Catalog) []catalog.Change {
				return c.SetPool(pool(fmt.Sprint(i)), []string{"opus-4"}, is)
			})
		}
		return steps
	}
	for _, tt := range []struct {
		name  string
		steps []step
		own   limits
		pools map[string]limits
	}{
		{"no pool", nil, both, nil},
		{"one that limits the kind", pools(rpm(100)), limits{state.TPM: limit(900)}, map[string]limits{"0": {state.RPM: limit(100)}}},
		{"both kinds", pools(q{MaxRPM: 50, MaxTPM: 50}), limits{}, map[string]limits{"0": both}},
		{"two pools, one kind each", pools(rpm(9), q{MaxTPM: 9}), limits{}, map[string]limits{"0": {state.RPM: limit(100)}, "1": {state.TPM: limit(900)}}},
		{"two pools of one kind", pools(rpm(9), rpm(8)), both, nil},
		{"a larger limit", pools(rpm(101)), both, nil},
		{"a model with a limit of its own", append(pools(rpm(9)), program("opus-*", rpm(1))), both, nil},
		{"the pool of a profile", []step{profile(group...)}, both, map[string]limits{"maker/opus": both}},
		{"both", append(pools(q{MaxTPM: 9}), profile(group...)), limits{state.RPM: limit(100)}, map[string]limits{"0": {state.TPM: limit(900)}, "maker/opus": both}},
	} {
		own, reports := after(tt.steps...).Reports("opus-4", "opus-4", both)
		got := make(map[string]limits)
		for _, r := range reports {
			name, _ := state.PoolOf(r.Pool)
			got[name] = r.Limits
		}
		if own != tt.own || !maps.Equal(got, tt.pools) {
			t.Errorf("%s: own %v, want %v; pools %v, want %v", tt.name, own, tt.own, got, tt.pools)
		}
	}
}

// A file has the pools of the program and of files, and of a profile only what reports corrected.
func TestStored(t *testing.T) {
	c := after(profile(group...), setPool("p", "m"), program("m", rpm(4)))
	f, supplied := c.Stored()
	if want := (quotas{"opus-4": rpm(50), "opus-5*": rpm(50), "haiku": rpm(80), "sonnet": rpm(70), "m": rpm(4), pool("p"): rpm(50)}); !maps.Equal(f.Quotas, want) {
		t.Errorf("the quotas are %v, want %v", f.Quotas, want)
	}
	if !supplied["haiku"] || supplied["m"] || len(f.Said) != 4 || !reflect.DeepEqual(f.Pools, members{pool("p"): {"m"}}) {
		t.Errorf("supplied %v, said %v, pools %v", supplied, f.Said, f.Pools)
	}
	reportRPM(pool("maker/opus"), 30)(c)
	if f, _ := c.Stored(); f.Quotas[pool("maker/opus")] != rpm(30) || len(f.Pools) != 1 {
		t.Errorf("with a corrected pool of a profile: %+v", f)
	}
}
