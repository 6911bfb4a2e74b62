package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
)

// validate returns an error that names the tier or the row that is wrong, and the field in it.
// It loads no zone: a program without a time zone database has profiles, too.
func (p *Provider) validate() error {
	if p.Name == "" {
		return errors.New("provider is empty")
	}
	if err := checkURL(p.Source); err != nil {
		return err
	}
	earlier := false
	for i, tier := range p.Tiers {
		switch {
		case tier.Name == "" || tier.Name != strings.ToLower(tier.Name):
			return fmt.Errorf("tiers[%d]: name %q is empty or not in lower case", i, tier.Name)
		case slices.ContainsFunc(p.Tiers[:i], func(t Tier) bool { return t.Name == tier.Name }):
			return fmt.Errorf("tiers[%d]: name %q comes twice", i, tier.Name)
		case earlier && !tier.Earlier:
			return fmt.Errorf("tiers[%d]: %q comes after an earlier tier", i, tier.Name)
		}
		earlier = tier.Earlier
	}
	if err := checkRules(p.Counting); err != nil {
		return err
	}
	for i := range p.Rows {
		if err := p.checkRow(&p.Rows[i]); err != nil {
			return fmt.Errorf("rows[%d]: %w", i, err)
		}
		if quota := p.Rows[i].Limits.Quota(); quota.LimitsSpend() {
			return fmt.Errorf("rows[%d]: limits: only pools limit spend", i)
		}
	}
	for i := range p.Pools {
		if err := p.checkRow(&p.Pools[i]); err != nil {
			return fmt.Errorf("pools[%d]: %w", i, err)
		}
		if p.Pools[i].Group == "" || p.Pools[i].Confidence == SourceDocument {
			return fmt.Errorf("pools[%d]: group is empty, or confidence %q", i, SourceDocument)
		}
	}
	if err := p.NoFigure.validate(); err != nil {
		return fmt.Errorf("no_figure: %w", err)
	}
	for i := range p.Statements {
		if err := p.Statements[i].validate(); err != nil {
			return fmt.Errorf("statements[%d]: %w", i, err)
		}
	}
	return p.checkOverlaps()
}

func (n *NoFigure) validate() error {
	if (n.Why == "") != (len(n.Models) == 0) {
		return errors.New("models and why go together")
	}
	for i, name := range n.Models {
		if name != "*" {
			if err := checkModel(n.Models[:i], name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Statement) validate() error {
	switch {
	case s.Counts == "":
		return errors.New("counts is empty")
	case s.ReadOn == (Day{}):
		return errors.New("read_on is missing")
	}
	return checkURL(s.Source)
}

// checkModel returns an error for what is no name and no pattern, or comes a second time.
func checkModel(before []string, name string) error {
	if !catalog.IsName(name) || strings.ContainsFunc(name, notInName) || strings.Contains(name, "**") {
		return fmt.Errorf("models: %q is no name and no pattern", name)
	}
	if slices.Contains(before, name) {
		return fmt.Errorf("models: %q comes twice", name)
	}
	return nil
}

func (p *Provider) checkRow(r *Row) error {
	if len(r.Models) == 0 {
		return errors.New("models is empty")
	}
	for i, name := range r.Models {
		if err := checkModel(r.Models[:i], name); err != nil {
			return err
		}
	}
	for _, limit := range []int{
		r.Limits.RPM, r.Limits.TPM, r.Limits.ITPM, r.Limits.OTPM,
		r.Limits.RPD, r.Limits.TPD, r.Limits.InFlight,
	} {
		if limit < 0 {
			return fmt.Errorf("limits: %d is negative", limit)
		}
	}
	if spend := min(r.Limits.SpendPerTenMinutes, r.Limits.SpendPerMonth); spend < 0 {
		return fmt.Errorf("limits: %v is negative", spend)
	}
	if err := checkRules(r.Counting); err != nil {
		return err
	}
	if r.ReadOn == (Day{}) {
		return errors.New("read_on is missing")
	}
	switch r.Confidence {
	case SourceDocument:
		if len(r.Tiers) > 0 || r.Source == "" || slices.ContainsFunc(r.Models, catalog.IsPattern) {
			return errors.New("a row of the source document has a source, and neither tiers nor patterns")
		}
		return nil
	case Published, Measured, SecondHand:
	default:
		return fmt.Errorf("confidence is %q", r.Confidence)
	}
	none := Limits{DayZone: r.Limits.DayZone}
	if r.Limits == none {
		return errors.New("limits has no figure")
	}
	if len(r.Tiers) == 0 {
		return errors.New("tiers is empty")
	}
	for i, tier := range r.Tiers {
		if _, ok := p.tier(tier); !ok || slices.Contains(r.Tiers[:i], tier) {
			return fmt.Errorf("tiers: %q is unknown or comes twice", tier)
		}
	}
	return checkURL(r.Source)
}

func notInName(c rune) bool { return c > unicode.MaxASCII || !unicode.IsGraphic(c) || c == ' ' }

func checkURL(source string) error {
	host, found := strings.CutPrefix(source, "https://")
	if !found || host == "" || strings.ContainsFunc(source, notInName) {
		return fmt.Errorf("source is %q, want an address with https", source)
	}
	return nil
}

func checkRules(rules []Rule) error {
	for i, rule := range rules {
		if Meanings[rule] == "" || slices.Contains(rules[:i], rule) {
			return fmt.Errorf("counting: %q is unknown or comes twice", rule)
		}
	}
	return nil
}

// checkOverlaps returns an error if two rows at one tier cover a name equally: by the same name
// or by patterns of one length. The rows of the source document share the map of DefaultProfiles
// with those of the lowest paid tier, so they count as rows of it, too.
func (p *Provider) checkOverlaps() error {
	for i := range p.Rows {
		for j := range i {
			a, b := &p.Rows[i], &p.Rows[j]
			if !p.meet(a, b) {
				continue
			}
			for _, name := range a.Models {
				for _, other := range b.Models {
					if len(name) == len(other) && catalog.Overlap(name, other) {
						return fmt.Errorf("rows[%d] and rows[%d] cover the same names: %q and %q", j, i, other, name)
					}
				}
			}
		}
	}
	return nil
}

// meet reports whether a limiter can have both rows.
func (p *Provider) meet(a, b *Row) bool {
	if a.Confidence == SourceDocument && b.Confidence == SourceDocument {
		return true
	}
	if b.Confidence == SourceDocument {
		a, b = b, a
	}
	if a.Confidence == SourceDocument {
		return b.At(p.LowestPaid()) || b.At(p.lowestPaid(true))
	}
	return slices.ContainsFunc(a.Tiers, b.At)
}
