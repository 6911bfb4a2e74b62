package accountlimits

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit"
)

const (
	maxFigure int64 = 1 << 40 // the largest limit that is believed
	maxName         = 256     // bytes of a model's name
	maxModels       = 10_000  // of an account
	maxPages        = 100     // of a reply
)

var (
	errNoList   = errors.New("reply is not a JSON object with a list named data")
	errNoEnd    = fmt.Errorf("reply has more than %d pages, or one that names itself the next", maxPages)
	errTooLarge = fmt.Errorf("reply has more than %d models", maxModels)
)

// readPages calls read for one page after another, with the cursor of the page, which is empty for
// the first. read returns the cursor of the next page, and an empty one behind the last.
func readPages(read func(cursor string) (next string, err error)) error {
	cursor := ""
	for range maxPages {
		next, err := read(cursor)
		if err != nil || next == "" {
			return err
		}
		if next == cursor {
			break
		}
		cursor = next
	}
	return errNoEnd
}

// figure returns a limit of a reply, as integer does. The error holds nothing of the reply: entry
// is the index in data.
func figure(raw json.RawMessage, entry int, name string) (int, error) {
	n, err := integer(raw)
	if err != nil {
		return 0, fmt.Errorf("reply: data[%d]: %s %w", entry, name, err)
	}
	return n, nil
}

var errNoInteger = fmt.Errorf("is no integer of 0 to %d", maxFigure)

// integer returns a limit; zero for null and for one that is missing.
func integer(raw json.RawMessage) (int, error) {
	if raw == nil || string(raw) == "null" {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > maxFigure {
		return 0, errNoInteger
	}
	return int(min(n, math.MaxInt)), nil
}

// limits are the limits of models.
type limits map[string]ratelimit.ModelQuota

// add notes what an entry says of a model. Of two entries for a model, the lower limits count. A
// model without a limit, and a name that no request can have or that is a pattern, are left out.
func (l limits) add(model string, q ratelimit.ModelQuota) error {
	if q == (ratelimit.ModelQuota{}) || !validName(model) {
		return nil
	}
	if _, known := l[model]; !known && len(l) >= maxModels {
		return errTooLarge
	}
	l[model] = lower(l[model], q)
	return nil
}

func validName(model string) bool {
	return strings.TrimSpace(model) != "" && len(model) <= maxName && utf8.ValidString(model) &&
		!strings.Contains(model, "*") && !strings.ContainsFunc(model, unicode.IsControl)
}

// lower returns the lower limits of two quotas, where zero is none.
func lower(a, b ratelimit.ModelQuota) ratelimit.ModelQuota {
	q := ratelimit.ModelQuota{
		MaxRPM: lowest(a.MaxRPM, b.MaxRPM), MaxTPM: lowest(a.MaxTPM, b.MaxTPM), MaxRPD: lowest(a.MaxRPD, b.MaxRPD),
		MaxITPM: lowest(a.MaxITPM, b.MaxITPM), MaxOTPM: lowest(a.MaxOTPM, b.MaxOTPM), MaxTPD: lowest(a.MaxTPD, b.MaxTPD),
		MaxInFlight: lowest(a.MaxInFlight, b.MaxInFlight),
		DayZone:     a.DayZone,
		Burst:       lowest(a.Burst, b.Burst),
	}
	if q.DayZone == "" {
		q.DayZone = b.DayZone
	}
	q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM = lowestBounds(a.AdaptiveFloorRPM, a.AdaptiveCeilingRPM, b.AdaptiveFloorRPM, b.AdaptiveCeilingRPM)
	q.AdaptiveFloorInFlight, q.AdaptiveCeilingInFlight = lowestBounds(
		a.AdaptiveFloorInFlight, a.AdaptiveCeilingInFlight, b.AdaptiveFloorInFlight, b.AdaptiveCeilingInFlight)
	return q
}

// lowestBounds returns the lower bounds of two limits that are found. The floor of one may be above
// the ceiling of the other.
func lowestBounds(floorA, ceilingA, floorB, ceilingB int) (floor, ceiling int) {
	floor, ceiling = lowest(floorA, floorB), lowest(ceilingA, ceilingB)
	if ceiling > 0 {
		floor = min(floor, ceiling)
	}
	return floor, ceiling
}

func lowest[T ~int | ~int64](a, b T) T {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
