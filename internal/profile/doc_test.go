// Doc: the tables of docs/providers.md.

package profile

import (
	"cmp"
	"flag"
	"fmt"
	"os"
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

// tables returns the table of all providers, and a section for each.
func tables(set *Set, prices Prices) string {
	var b strings.Builder
	statementTable(&b, set)
	for _, name := range set.Names() {
		p := set.Provider(name)
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		for _, rule := range p.Counting {
			fmt.Fprintf(&b, "- *%s*: %s\n", rule, Meanings[rule])
		}
		if len(p.Tiers) > 0 {
			fmt.Fprintf(&b, "- Tiers, the lowest first: %s.\n", tierList(p))
		}
		fmt.Fprintf(&b, "- [Page of the provider](%s)\n", p.Source)
		if list := prices[name]; list != nil {
			fmt.Fprintf(&b, "- [Built-in prices](../internal/profile/prices/%s.json): %s\n", name, pricesOf(list))
		}
		if p.NoFigure.Why != "" {
			fmt.Fprintf(&b, "- No current figure: %s. %s\n", noFigureList(p), p.NoFigure.Why)
		}
		if p.Note != "" {
			fmt.Fprintf(&b, "\n%s\n", p.Note)
		}
		if len(p.Rows) > 0 {
			rowTable(&b, p, p.Rows)
		}
		if len(p.Pools) > 0 {
			fmt.Fprintf(&b, "\nPools, which hold only if the program asks for them (`ProviderProfile.Pools`):\n")
			rowTable(&b, p, p.Pools)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// statementTable has what each provider counts, and what of that no quota can express.
func statementTable(b *strings.Builder, set *Set) {
	b.WriteString("\n## What providers count, and what a quota cannot express\n\n")
	b.WriteString("| Provider | It counts | What we cannot express | Source | Read on |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range set.Names() {
		for _, s := range set.Provider(name).Statements {
			fmt.Fprintf(b, "| [%s](#%s) | %s | %s | [page](%s) | %s |\n", name, name, s.Counts, cmp.Or(s.Beyond, "nothing of it"), s.Source, s.ReadOn)
		}
	}
}

func noFigureList(p *Provider) string {
	names := make([]string, len(p.NoFigure.Models))
	for i, name := range p.NoFigure.Models {
		switch names[i] = "`" + name + "`"; {
		case name == "*" && len(p.Rows) == 0:
			names[i] = "any model"
		case name == "*":
			names[i] = "any other model"
		}
	}
	return strings.Join(names, ", ")
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
		return fmt.Sprintf("%d names and patterns, read on %s.", names, first)
	}
	return fmt.Sprintf("%d names and patterns, read from %s to %s.", names, first, last)
}

func tierList(p *Provider) string {
	names := make([]string, len(p.Tiers))
	for i, tier := range p.Tiers {
		names[i] = "`" + tier.Name + "`"
		switch {
		case tier.Earlier:
			names[i] += " (earlier name)"
		case tier.Name == p.LowestPaid():
			names[i] += " (the default)"
		case !tier.Paid:
			names[i] += " (not paid)"
		}
	}
	return strings.Join(names, ", ")
}

// column is one column of a provider's table. It is left out where no row has anything in it.
type column struct {
	head  string
	value func(p *Provider, r *Row) string
}

var columns = []column{
	{"Tier", func(p *Provider, r *Row) string { return cmp.Or(strings.Join(r.Tiers, ", "), "*default*") }},
	{"Models", func(p *Provider, r *Row) string { return "`" + strings.Join(r.Models, "` `") + "`" }},
	{"One bucket", func(p *Provider, r *Row) string {
		if len(r.Models) > 1 || strings.Contains(r.Models[0], "*") {
			return r.Group
		}
		return ""
	}},
	limitColumn("RPM", func(l *Limits) int { return l.RPM }),
	limitColumn("TPM", func(l *Limits) int { return l.TPM }),
	limitColumn("Input TPM", func(l *Limits) int { return l.ITPM }),
	limitColumn("Output TPM", func(l *Limits) int { return l.OTPM }),
	limitColumn("RPD", func(l *Limits) int { return l.RPD }),
	limitColumn("TPD", func(l *Limits) int { return l.TPD }),
	limitColumn("At once", func(l *Limits) int { return l.InFlight }),
	spendColumn("Spend in 10 minutes", func(l *Limits) money.Amount { return l.SpendPerTenMinutes }),
	spendColumn("Spend a month", func(l *Limits) money.Amount { return l.SpendPerMonth }),
	{"Day ends in", func(p *Provider, r *Row) string { return r.Limits.DayZone }},
	{"Counting", func(p *Provider, r *Row) string {
		var rules []string
		for _, rule := range r.Counting {
			rules = append(rules, string(rule))
		}
		return strings.Join(rules, ", ")
	}},
	{"Read on", func(p *Provider, r *Row) string { return r.ReadOn.String() }},
	{"Known by", func(p *Provider, r *Row) string {
		if r.Confidence == SourceDocument {
			return string(r.Confidence)
		}
		return fmt.Sprintf("[%s](%s)", r.Confidence, r.Source)
	}},
	{"Note", func(p *Provider, r *Row) string { return r.Note }},
}

func spendColumn(head string, limit func(*Limits) money.Amount) column {
	return column{head, func(p *Provider, r *Row) string {
		if spend := limit(&r.Limits); spend != 0 {
			return spend.String()
		}
		return ""
	}}
}

func limitColumn(head string, limit func(*Limits) int) column {
	return column{head, func(p *Provider, r *Row) string {
		if n := limit(&r.Limits); n != 0 {
			return grouped(n)
		}
		return ""
	}}
}

// grouped writes a number with a comma before every three digits.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func rowTable(b *strings.Builder, p *Provider, rows []Row) {
	var shown []column
	for _, c := range columns {
		for i := range rows {
			if c.value(p, &rows[i]) != "" {
				shown = append(shown, c)
				break
			}
		}
	}
	b.WriteString("\n|")
	for _, c := range shown {
		fmt.Fprintf(b, " %s |", c.head)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(shown)) + "\n")
	for i := range rows {
		b.WriteString("|")
		for _, c := range shown {
			fmt.Fprintf(b, " %s |", strings.ReplaceAll(c.value(p, &rows[i]), "|", `\|`))
		}
		b.WriteString("\n")
	}
}
