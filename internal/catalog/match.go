package catalog

import "strings"

// maxLength is the longest name, in bytes, that Match takes apart. No provider's names
// come near it, and the work is up to its square: a name may be all separators, and at
// each of them Match asks whether the part before it exists.
const maxLength = 1024

// Match returns the longest name known to exists that model stands for: its own, or one
// that it extends by
//   - ":" or "@" and anything ("llama3:8b-q4", "claude-opus-4@20250514"),
//   - "-" and a tag: a date (YYYY-MM-DD, YYYYMMDD, MMDD), three digits, "latest"
//     or "v" and digits; more tags may follow, and then ":" or "@" and anything.
//
// One or two digits are no tag: "claude-opus-4-1" and "claude-opus-4" are two models. The
// same holds of model without "models/", or all up to "publishers/…/models/", and without
// that and a leading "provider/". Of two names of the same length Match takes the one that
// model states more fully.
//
// A model of more than 1,024 bytes stands for its own name only. The empty name and "*"
// are never matched, and exists is not asked for them. The name returned is a part of
// model. Match allocates nothing, and is safe for concurrent use if exists is.
func Match(model string, exists func(name string) bool) (name string, ok bool) {
	if IsName(model) && exists(model) {
		return model, true
	}
	if len(model) > maxLength {
		return "", false
	}
	name = longestBase(model, "", exists)
	bare := withoutPath(model)
	if len(bare) < len(model) {
		name = longestBase(bare, name, exists)
	}
	if i := strings.IndexByte(bare, '/'); i > 0 {
		name = longestBase(bare[i+1:], name, exists)
	}
	return name, name != ""
}

// IsName reports whether a model may be called by a name: it is neither empty nor "*". A model may
// be called by the name of a pattern.
func IsName(name string) bool { return name != "" && name != "*" }

// withoutPath returns the part after the first "publishers/…/models/" of a path, or else
// after a leading "models/".
func withoutPath(model string) string {
	const publishers, models = "publishers/", "models/"
	for rest, more := model, true; more; _, rest, more = strings.Cut(rest, "/") {
		path, ok := strings.CutPrefix(rest, publishers)
		if !ok {
			continue
		}
		// A slash in front would be a publisher without a name.
		if i := strings.IndexByte(path, '/'); i > 0 && strings.HasPrefix(path[i+1:], models) {
			return path[i+1+len(models):]
		}
	}
	return strings.TrimPrefix(model, models)
}

// longestBase returns the longest name that exists and that full is or extends, or best
// where none is longer than that.
func longestBase(full, best string, exists func(name string) bool) string {
	if len(full) > len(best) && IsName(full) && exists(full) {
		return full
	}
	// From the end to the front, so that at each place it is known whether the rest is an
	// extension. A boundary is a separator or the end; it is open if everything after it
	// is an extension. The last three are kept, nearest first, because a date may reach
	// across three.
	type boundary struct {
		at   int
		open bool
	}
	last := [3]boundary{{len(full), true}}
	for i := len(full) - 1; i > len(best); i-- {
		open := false
		switch full[i] {
		case ':', '@':
			open = true
		case '-':
			open = last[0].open && isTag(full[i+1:last[0].at]) ||
				last[2].open && isDashedDate(full[i+1:last[2].at])
		default:
			continue
		}
		if open && IsName(full[:i]) && exists(full[:i]) {
			return full[:i]
		}
		last = [3]boundary{{i, open}, last[0], last[1]}
	}
	return best
}

// isTag reports whether text, which has no dash, marks a date or a version of a model.
func isTag(text string) bool {
	if text == "latest" {
		return true
	}
	if number, ok := strings.CutPrefix(text, "v"); ok {
		return number != "" && areDigits(number)
	}
	switch len(text) {
	case 3:
		return areDigits(text)
	case 4:
		return isMonthDay(text)
	case 8:
		return isYear(text[:4]) && isMonthDay(text[4:])
	}
	return false
}

func isDashedDate(text string) bool {
	return len(text) == len("YYYY-MM-DD") && text[4] == '-' && text[7] == '-' &&
		isYear(text[:4]) && isMonth(text[5:7]) && isDay(text[8:])
}

// A date is told from a size, such as the 8192 of "llama3-70b-8192", by the ranges of its
// parts. That some months have fewer than 31 days would tell no more sizes apart.

func isYear(text string) bool     { return areDigits(text) && (text[:2] == "19" || text[:2] == "20") }
func isMonth(text string) bool    { return areDigits(text) && "01" <= text && text <= "12" }
func isDay(text string) bool      { return areDigits(text) && "01" <= text && text <= "31" }
func isMonthDay(text string) bool { return isMonth(text[:2]) && isDay(text[2:]) }

func areDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
