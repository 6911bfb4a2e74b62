package account

// IsCurrent reports whether an account certainly is not stale: something counts to its minute, and
// none of it has expired.
func (a *Account) IsCurrent(now Now, span int64) bool {
	return a.oldest != Never && a.oldest >= now.Instant-span && a.Day.Holds(now.Wall) && a.Traits&(Cools|Reported) == 0
}

// IsStale reports whether anything of what the account shows has expired and is still kept.
func (a *Account) IsStale(now Now, span int64) bool {
	if a.IsCurrent(now, span) {
		return false
	}
	if a.shown && (a.oldest < now.Instant-span || a.IsIdle(now, span) || !a.Day.Holds(now.Wall)) {
		return true
	}
	if a.Has(Cools) && a.CoolUntil <= now.Wall {
		return true
	}
	if a.Reports == nil {
		return false
	}
	left := *a.Reports
	return !left.Expire(now.Instant, now.Wall)
}

// Counts reports whether the charge counts to the minute that begins at a cut, and whether it
// counts to the present day.
func (c *Charge) Counts(cut int64) (minute, day bool) {
	return c.isKnown() && c.At >= cut, c.isToday()
}
