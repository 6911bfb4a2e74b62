// Doc: the tables of docs/providers.md.

package profile

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/money"
)

var update = flag.Bool("update", false, "write the tables of docs/providers.md from the profiles")

const (
	docFile  = "../../docs/providers.md"
	docBegin = "<!-- Written by go generate from internal/profile/data/*.json: begin -->\n"
	docEnd   = "<!-- end -->\n"
)

// TestDoc keeps the tables of docs/providers.md as the profiles are. go generate, or
//
//	go test ./internal/profile -run TestDoc -update
//
// writes them.
func TestDoc(t *testing.T) {
	text, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), docBegin)
	_, after, ends := strings.Cut(rest, docEnd)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", docFile, docBegin, docEnd)
	}
	want := before + docBegin + tables(builtin(t), builtinPrices(t)) + docEnd + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the profiles: run go generate", docFile)
	}
	if err := os.WriteFile(docFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tables returns what the words of counting mean, the rows of the source document, and a section
// for each provider.
func tables(set *Set, prices Prices) string {
	var b strings.Builder
	b.WriteString("\n## Words of counting\n\n")
	for _, rule := range slices.Sorted(maps.Keys(Meanings)) {
		fmt.Fprintf(&b, "- *%s*: %s\n", rule, Meanings[rule])
	}
	promised(&b, set)
	for _, name := range set.Names() {
		p := set.Provider(name)
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		section(&b, p, prices[name])
		var now, earlier []Row
		for _, r := range p.Rows {
			if tier, _ := p.tier(r.FirstTier()); tier.Earlier {
				earlier = append(earlier, r)
			} else if r.Confidence != SourceDocument {
				now = append(now, r)
			}
		}
		rowTable(&b, p, "", now)
		rowTable(&b, p, "By earlier tiers, ", earlier)
		rowTable(&b, p, "Pools, ", p.Pools)
	}
	b.WriteString("\n")
	return b.String()
}

// promised is the table of the rows of the source document.
func promised(b *strings.Builder, set *Set) {
	b.WriteString("\n## Models of February 2026\n\nRead on 2026-02-01 in this module's source document.\n\n")
	b.WriteString("|Provider|Models|RPM|TPM|RPD|\n|---|---|---|---|---|\n")
	for _, name := range set.Names() {
		for _, r := range set.Provider(name).Rows {
			if r.Confidence == SourceDocument {
				fmt.Fprintf(b, "|%s|%s|%s|%s|%s|\n", name, folded(r.Models), short(r.Limits.RPM), short(r.Limits.TPM), short(r.Limits.RPD))
			}
		}
	}
}

// section says of a provider all but its rows.
func section(b *strings.Builder, p *Provider, prices *PriceList) {
	sources := make(map[string]bool)
	for _, s := range p.Statements {
		sources[s.Source] = true
		beyond := ""
		switch s.Beyond {
		case "":
		case "All of it.":
			beyond = " **Not expressed.**"
		default:
			beyond = " **Not expressed:** " + s.Beyond
		}
		fmt.Fprintf(b, "- %s [%s](%s)%s\n", s.Counts, s.ReadOn, s.Source, beyond)
	}
	fmt.Fprintf(b, "- Counting: %s.", strings.Join(emphasized(p.Counting), ", "))
	if len(p.Tiers) > 0 {
		fmt.Fprintf(b, " Tiers: %s.", tierList(p))
	}
	if prices != nil {
		fmt.Fprintf(b, " [Prices](../internal/profile/prices/%s.json): %s", p.Name, pricesOf(prices))
	}
	if !sources[p.Source] {
		fmt.Fprintf(b, " [Page](%s).", p.Source)
	}
	if p.NoFigure.Why != "" {
		fmt.Fprintf(b, "\n- No figure: %s. %s", noFigureList(p), p.NoFigure.Why)
	}
	b.WriteString("\n")
	if p.Note != "" {
		fmt.Fprintf(b, "- %s\n", p.Note)
	}
}

func emphasized(rules []Rule) []string {
	words := make([]string, len(rules))
	for i, rule := range rules {
		words[i] = "*" + string(rule) + "*"
	}
	return words
}

func noFigureList(p *Provider) string {
	names := slices.Clone(p.NoFigure.Models)
	all := slices.Index(names, "*")
	if all >= 0 {
		names = slices.Delete(names, all, all+1)
	}
	list := folded(names)
	switch {
	case all < 0:
		return list
	case list == "" && len(p.Rows) == 0:
		return "any model"
	}
	return list + " and any other model"
}

// pricesOf says how many prices there are, and when they were read.
func pricesOf(list *PriceList) string {
	names, first, last := 0, list.Rows[0].ReadOn, list.Rows[0].ReadOn
	for _, r := range list.Rows {
		names += len(r.Models)
		if r.ReadOn.Time().Before(first.Time()) {
			first = r.ReadOn
		}
		if r.ReadOn.Time().After(last.Time()) {
			last = r.ReadOn
		}
	}
	if first == last {
		return fmt.Sprintf("%d, read on %s.", names, first)
	}
	return fmt.Sprintf("%d, read %s to %s.", names, first, last)
}

func tierList(p *Provider) string {
	names := make([]string, len(p.Tiers))
	for i, tier := range p.Tiers {
		names[i] = "`" + tier.Name + "`"
		switch {
		case tier.Earlier:
			names[i] += " (earlier)"
		case tier.Name == p.LowestPaid():
			names[i] += " (default)"
		case !tier.Paid:
			names[i] += " (unpaid)"
		}
	}
	return strings.Join(names, ", ")
}

// limits are the figures that a table may have, in the order in which a cell has them.
var limits = []struct {
	head  string
	value func(l *Limits) string
}{
	{"RPM", func(l *Limits) string { return short(l.RPM) }},
	{"TPM", func(l *Limits) string { return short(l.TPM) }},
	{"input TPM", func(l *Limits) string { return short(l.ITPM) }},
	{"output TPM", func(l *Limits) string { return short(l.OTPM) }},
	{"RPD", func(l *Limits) string { return short(l.RPD) }},
	{"TPD", func(l *Limits) string { return short(l.TPD) }},
	{"open requests", func(l *Limits) string { return short(l.InFlight) }},
	{"spend in 10 minutes", func(l *Limits) string { return dollars(l.SpendPerTenMinutes) }},
	{"spend a month", func(l *Limits) string { return dollars(l.SpendPerMonth) }},
}

// short writes a number with k or M where that is exact and shorter, and none as "".
func short(n int) string {
	switch {
	case n == 0:
		return ""
	case n >= 1_000_000 && n%100_000 == 0:
		return fmt.Sprint(float64(n)/1_000_000) + "M"
	case n >= 10_000 && n%100 == 0:
		return fmt.Sprint(float64(n)/1000) + "k"
	}
	return grouped(n)
}

func dollars(spend money.Amount) string {
	if spend == 0 {
		return ""
	}
	return strings.TrimSuffix(spend.String(), ".00")
}

// grouped writes a number with a comma before every three digits.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// shown returns the limits that some row has.
func shown(rows []Row) (heads []string, cell func(r *Row) string) {
	var used []int
	for i, limit := range limits {
		if slices.ContainsFunc(rows, func(r Row) bool { return limit.value(&r.Limits) != "" }) {
			heads, used = append(heads, limit.head), append(used, i)
		}
	}
	return heads, func(r *Row) string {
		var values []string
		for _, i := range used {
			values = append(values, cmp.Or(limits[i].value(&r.Limits), "–"))
		}
		return strings.Join(values, "/")
	}
}

// column is one column of a provider's table. It is left out where no row has anything in it.
type column struct {
	head  string
	value func(r *Row) string
}

// before and after are the columns beside those of the tiers. Rows that agree in them are one.
var (
	before = []column{
		{"Models", func(r *Row) string { return folded(r.Models) }},
		{"One bucket", func(r *Row) string {
			if len(r.Models) > 1 || strings.Contains(r.Models[0], "*") {
				return r.Group
			}
			return ""
		}},
	}
	after = []column{
		{"Read on", func(r *Row) string {
			return fmt.Sprintf("[%s](%s)%s", r.ReadOn, r.Source, marks[r.Confidence])
		}},
		{"Note", func(r *Row) string {
			note := strings.Join(emphasized(r.Counting), ", ")
			if r.Limits.DayZone != "" {
				note = "days of " + r.Limits.DayZone
			}
			if note != "" {
				note += ". "
			}
			return strings.TrimSpace(note + r.Note)
		}},
	}
)

// marks follow a day, but for a published row.
var marks = map[Confidence]string{SecondHand: "\u2020", Measured: "\u2021"}

// rowTable writes rows with a column for each tier, under a line that says what a cell has.
func rowTable(b *strings.Builder, p *Provider, intro string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	heads, cell := shown(rows)
	fmt.Fprintf(b, "\n%s%s:\n", intro, strings.Join(heads, "/"))
	columns := slices.Clone(before)
	for _, tier := range p.Tiers {
		columns = append(columns, column{tier.Name, func(r *Row) string {
			for i := range rows {
				if rows[i].At(tier.Name) && sameRow(&rows[i], r) {
					return cell(&rows[i])
				}
			}
			return ""
		}})
	}
	columns = append(columns, after...)
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return !slices.ContainsFunc(rows, func(r Row) bool { return c.value(&r) != "" })
	})
	b.WriteString("\n|")
	for _, c := range columns {
		b.WriteString(c.head + "|")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)) + "\n")
	for i := range rows {
		if slices.ContainsFunc(rows[:i], func(r Row) bool { return sameRow(&r, &rows[i]) }) {
			continue
		}
		b.WriteString("|")
		for _, c := range columns {
			b.WriteString(strings.ReplaceAll(c.value(&rows[i]), "|", `\|`) + "|")
		}
		b.WriteString("\n")
	}
}

// sameRow reports whether two rows differ in nothing but the tier and its figures.
func sameRow(a, b *Row) bool {
	for _, c := range slices.Concat(before, after) {
		if c.value(a) != c.value(b) {
			return false
		}
	}
	return true
}

// folded writes names in short: "[x]" is a part that may be missing, "{x,y}" is one of these.
func folded(names []string) string {
	names = slices.Clone(names)
	take := func(wanted ...string) bool {
		for _, name := range wanted {
			if !slices.Contains(names, name) {
				return false
			}
		}
		for _, name := range wanted {
			names[slices.Index(names, name)] = ""
		}
		return true
	}
	for i, name := range names {
		if rest, ok := strings.CutPrefix(name, "us."); ok && take("eu."+rest, "apac."+rest, "global."+rest) {
			names[i] = "{us,eu,apac,global}." + rest
		} else if name != "" && take("projects/*/"+name) {
			names[i] = "[projects/*/]" + name
		}
	}
	for i, name := range names {
		for _, end := range []string{"-20*", "-v*", "-*"} {
			if names[i] == name && name != "" && take(name+end) {
				names[i] = name + "[" + end + "]"
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "` `") + "`"
}

func TestShort(t *testing.T) {
	for n, want := range map[int]string{
		0: "", 30: "30", 1776: "1,776", 8000: "8,000", 14_400: "14.4k", 14_976: "14,976", 500_000: "500k",
		1_500_000: "1.5M", 180_000_000: "180M", 1_234_000: "1234k",
	} {
		if got := short(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestFolded(t *testing.T) {
	for names, want := range map[string]string{
		"a a-20* a-b a-b-*":            "`a[-20*]` `a-b[-*]`",
		"a-20* b":                      "`a-20*` `b`",
		"us.a us.a-v* eu.a":            "`us.a[-v*]` `eu.a`",
		"us.a eu.a apac.a global.a":    "`{us,eu,apac,global}.a`",
		"us.a eu.a apac.a us.b":        "`us.a` `eu.a` `apac.a` `us.b`",
		"p/a p/a@* projects/*/p/a p/b": "`[projects/*/]p/a` `p/a@*` `p/b`",
		"projects/*/p/a-20* p/a":       "`projects/*/p/a-20*` `p/a`",
	} {
		if got := folded(strings.Fields(names)); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
}
