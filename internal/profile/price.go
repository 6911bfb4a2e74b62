package profile

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/money"
)

//go:generate node prices/renew.mjs

//go:embed prices/*.json
var priceFiles embed.FS

// BuiltinPrices returns the built-in prices. The tests read the same files, so a panic here is a
// broken build.
var BuiltinPrices = sync.OnceValue(func() Prices {
	data, err := fs.Sub(priceFiles, "prices")
	if err != nil {
		panic(err)
	}
	prices, err := ParsePrices(data)
	if err != nil {
		panic(err)
	}
	return prices
})

// Prices are what providers charge for their models, by provider. They never change, and are safe
// for concurrent use.
type Prices map[string]*PriceList

// PriceList is what one provider charges.
type PriceList struct {
	Provider string     `json:"provider"`
	Source   string     `json:"source"`
	ReadOn   Day        `json:"read_on"`
	Licence  string     `json:"licence"` // of the source
	Rows     []PriceRow `json:"rows"`

	names map[string]*PriceRow // and patterns
	index *catalog.PatternIndex
}

// PriceRow is what a provider charges for some models.
type PriceRow struct {
	Models []string    `json:"models"` // names and patterns
	Price  money.Price `json:"price"`
	Source string      `json:"source"`  // that of the list where the row has none
	ReadOn Day         `json:"read_on"` // that of the list where the row has none

	Provider string `json:"-"`
}

// IsOld reports whether the provider may have another price by now.
func (r *PriceRow) IsOld(now time.Time) bool { return now.Sub(r.ReadOn.Time()) > FreshFor }

// ParsePrices reads all *.json in the top folder of files, as Parse does.
func ParsePrices(files fs.FS) (Prices, error) {
	return parseFiles(files, "prices", parsePrices, func(l *PriceList) string { return l.Provider })
}

func parsePrices(text []byte) (*PriceList, error) {
	list := &PriceList{names: make(map[string]*PriceRow)}
	if err := decode(text, list); err != nil {
		return nil, err
	}
	var patterns []string
	for i := range list.Rows {
		r := &list.Rows[i]
		if r.Provider = list.Provider; r.Source == "" {
			r.Source, r.ReadOn = list.Source, list.ReadOn
		}
		if err := r.validate(); err != nil {
			return nil, fmt.Errorf("rows[%d]: %w", i, err)
		}
		for _, model := range r.Models {
			if list.names[model] != nil {
				return nil, fmt.Errorf("rows[%d]: model %q has two prices", i, model)
			}
			if list.names[model] = r; catalog.IsPattern(model) {
				patterns = append(patterns, model)
			}
		}
	}
	list.index = catalog.NewPatternIndex(slices.Values(patterns))
	return list, nil
}

func (r *PriceRow) validate() error {
	switch {
	case len(r.Models) == 0:
		return errors.New("no models")
	case slices.ContainsFunc(r.Models, func(model string) bool { return !catalog.IsName(model) }):
		return fmt.Errorf("models %q: not the name of one", r.Models)
	case r.Source == "" || r.ReadOn.Time().IsZero():
		return fmt.Errorf("models %q: no source, or no day", r.Models)
	case r.Price.IsZero():
		return fmt.Errorf("models %q: no price", r.Models)
	}
	return r.Price.Validate()
}

// find returns the row of a model: that of its name, of the name that it is a version of, or of the
// longest pattern that covers it; nil for none.
func (l *PriceList) find(model string) *PriceRow {
	if l == nil {
		return nil
	}
	name, _ := catalog.Match(model, func(name string) bool { return l.names[name] != nil && !catalog.IsPattern(name) })
	if name == "" && l.index != nil {
		name, _ = l.index.Longest(model)
	}
	return l.names[name]
}

// vendors serve models of their own. What others charge for the models that they host differs.
var vendors = []string{"anthropic", "deepseek", "gemini", "mistral", "openai", "xai"}

// Find returns what a provider charges for a model; nil where that is not known. The provider ""
// stands for whoever made the model.
func (p Prices) Find(provider, model string) *PriceRow {
	if provider != "" {
		return p[provider].find(model)
	}
	for _, vendor := range vendors {
		if r := p[vendor].find(model); r != nil {
			return r
		}
	}
	return nil
}

// foundPrices are prices that were looked for. Their lock is held for a few assignments.
type foundPrices struct {
	mu      sync.Mutex
	version int // of what they depend on
	rows    map[string]*PriceRow
}

// mostFound is how many prices are remembered.
const mostFound = 1000

// PriceOf returns what is charged for a model, which is counted under a name, by the provider of
// ProviderOf, else by the first that was loaded and has a price; nil where none is known. first
// says that it was looked for, and not remembered.
func (l *Loaded) PriceOf(name, model string, c *catalog.Catalog) (row *PriceRow, first bool) {
	f := &l.prices
	f.mu.Lock()
	defer f.mu.Unlock()
	if version := c.Version() + len(l.providers); version != f.version || len(f.rows) > mostFound {
		f.version, f.rows = version, nil
	}
	row, known := f.rows[model]
	if known {
		return row, false
	}
	for _, provider := range append([]string{l.ProviderOf(name, c)}, l.providers...) {
		if row = cmp.Or(BuiltinPrices().Find(provider, model), BuiltinPrices().Find(provider, name)); row != nil {
			break
		}
	}
	if f.rows == nil {
		f.rows = make(map[string]*PriceRow)
	}
	f.rows[strings.Clone(model)] = row
	return row, true
}
