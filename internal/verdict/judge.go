package verdict

import (
	"cmp"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The reasons of refusals that no table has.
const (
	NegativeTokens   = "invalid tokens: the estimate is negative"
	noQuota          = "no quota for this model"
	tooManyModels    = "too many models without a quota of their own are in use"
	TooManyNewModels = "more models without a quota of their own than MaxModels allows"

	unknownZone = `invalid quota: DayZone (day_zone) is not a known time zone; without a time zone database on the machine, import _ "time/tzdata"`
)

// fits reports whether more fits a limit of which some is used. None of them is negative.
func fits(used, more, limit int) bool { return limit == 0 || used <= limit-more }

// Admits reports whether an account lets a cost pass, without giving a reason. The cost must not
// be negative. Charges of the minute before cut do not count. sure is false if the account has
// rare limits: then admits is, too, and only Judge can decide.
func Admits(a *account.Account, c *state.Cost, cut int64, now account.Now) (admits, sure bool) {
	const plain = account.Rest | account.Paces | account.Zoned
	if rare := a.Traits &^ plain; rare != 0 {
		is := rare == account.Unlimited
		return is, is
	}
	q, rest := &a.Quota, a.Has(account.Rest)
	if !fits(a.Requests(cut), c.Requests, q.MaxRPM) {
		return false, true
	}
	if rest || q.MaxTPM != 0 {
		used := a.Tokens(cut)
		if !fits(used.Total(), c.Total(), q.MaxTPM) {
			return false, true
		}
		if rest && !(fits(used.Input, c.Input, q.MaxITPM) && fits(used.Output, c.Output, q.MaxOTPM) &&
			fits(a.InFlight, c.Requests, q.MaxInFlight)) {
			return false, true
		}
	}
	if q.MaxRPD|q.MaxTPD != 0 {
		requests, used, _ := a.DayUsed(now.Wall)
		if !fits(requests, c.Requests, q.MaxRPD) || rest && !fits(used, c.Total(), q.MaxTPD) {
			return false, true
		}
	}
	return !a.Has(account.Paces) || a.Paced(c, now.Instant), true
}

// decide decides on one item, and notes the outcome in it. v is empty before.
func (i *Item) decide(v *Verdict, reserves []account.Reserve, now account.Now) {
	a, ask := i.Account, &i.Ask
	switch {
	case ask.Input < 0 || ask.Output < 0:
		v.Never, v.Code, v.Reason = true, InvalidTokens, NegativeTokens
	case a.Has(account.Cools) && a.CoolUntil > now.Wall:
		i.deny(v, reserves, now)
	case a.Has(account.Unknown):
		v.Allowed, v.Code, v.Reason = true, UnknownModel, noQuota
	case a.Has(account.Unlimited) && !a.Has(account.Invalid):
		v.Allowed, v.Code, v.Reason = true, Unlimited, unlimited
	default:
		if pass, _ := Admits(a, &ask.Cost, now.Instant-ask.Span, now); pass && !i.Full && !account.Withholds(reserves) {
			v.Allowed, v.Code, v.Reason = true, Allowed, within
		} else {
			i.deny(v, reserves, now)
		}
	}
	if i.Deny && a.Has(account.Unknown) && v.Code != InvalidTokens {
		*v = Verdict{Never: true, Code: UnknownModel, Reason: noQuota + i.Nearest}
	}
	i.Code, i.Never, i.Wait, i.Stays = v.Code, v.Never, v.wait, v.Keeps
}

// deny collects the refusals of all limits. Where there is none, the ask passes.
func (i *Item) deny(v *Verdict, reserves []account.Reserve, now account.Now) {
	a, ask := i.Account, &i.Ask
	if reason, bad := a.Quota.Invalid(); bad || a.Has(account.Invalid) {
		v.Never, v.Code, v.Reason = true, InvalidQuota, cmp.Or(reason, unknownZone)
		return
	}
	var d account.Denial
	cools := a.CoolUntil > now.Wall
	if cools {
		d.Add(&account.Refusal{
			Rank: account.ByCooldown, Code: Cooldown, Reason: state.CooldownReason(a.CoolCause), Wait: a.CoolUntil - now.Wall,
		})
		v.Cause = a.CoolCause
	}
	if i.Full {
		d.Add(&account.Refusal{Rank: account.ByPlace, Code: TooManyModels, Reason: tooManyModels, Wait: i.PlaceIn, Event: i.PlaceIn == 0})
	}
	u := usage{Account: a, ask: ask, now: now, reserves: reserves, held: a.HeldFrom(ask, reserves, now)}
	u.checkSlots(&d)
	for i := range rows {
		if row := &rows[i]; *a.Quota.Limit(row.of) != 0 {
			u.check(&d, row.of, row.rank)
		}
	}
	for _, x := range a.Extras {
		d.Merge(x.Deny(*ask, now))
	}
	v.Keeps = u.held != nil && (u.held.Keeps || u.held.Slots > 0)
	if d.IsNone() { // what is kept for others leaves room
		v.Allowed, v.Code, v.Reason = true, Allowed, within
		return
	}
	v.Code, v.Reason, v.OverBudget = d.First().Code, d.First().Reason, d.OverBudget()
	if tooMuch := d.TooMuch(); tooMuch != "" {
		v.Never, v.Reason = true, tooMuch
		return
	}
	v.wait = d.Wait()
	if v.event = d.AwaitsEvent() && !cools; !v.event { // the cooldown is there to be waited for, whatever comes then
		v.Retry = time.Duration(v.wait)
	}
	v.event = v.event && (v.Code == TooManyModels || v.Code == state.Limits[state.InFlight].Code)
	v.Reason = withLongest(v.Reason, d.Longest(v.Retry > 0))
}

// rows is the table of the limits that end with time, by their ranks.
var rows = [...]struct {
	of   state.Dimension
	rank account.Rank
}{
	{state.RPD, account.ByRPD}, {state.TPD, account.ByTPD}, {state.RPM, account.ByRPM},
	{state.ITPM, account.ByITPM}, {state.OTPM, account.ByOTPM}, {state.TPM, account.ByTPM},
}

// usage is what an ask finds.
type usage struct {
	*account.Account
	ask      *account.Ask
	now      account.Now
	reserves []account.Reserve
	held     *account.Held // nil for nothing
}

// checkSlots checks the calls in flight.
func (u *usage) checkSlots(d *account.Denial) {
	limit, kept := u.SlotLimit(u.now), 0
	if u.held != nil {
		kept = u.held.Slots
	}
	if fits(state.AddSaturated(u.InFlight, kept), u.ask.Requests, limit) {
		return
	}
	slots := &state.Limits[state.InFlight]
	r := account.Refusal{Rank: account.BySlots, Code: slots.Code, Reason: slots.UsedUp, Event: true}
	switch {
	case fits(u.InFlight, u.ask.Requests, limit):
		if r.Reason = slots.Kept; account.Withholds(u.reserves) {
			r.Reason = withheld
		}
		r.Event, r.Wait = false, u.settled(u.held.SlotsFor, state.InFlight, limit-u.ask.Requests)
	case u.ask.Requests > u.MostSlots():
		r.TooMuch = slots.TooLarge
	}
	d.Add(&r)
}

// used returns the own usage of a dimension.
func (u *usage) used(of state.Dimension) int { return u.Used(of, u.ask.Span, u.now) }

// check looks at the limit of one dimension, which has one, and at its bucket.
func (u *usage) check(d *account.Denial, of state.Dimension, rank account.Rank) {
	n, limit, more := &state.Limits[of], *u.Quota.Limit(of), u.ask.Of(of)
	used, beside := u.used(of), 0
	if u.held != nil {
		beside = u.held.Parts[of].Amount
	}
	if more <= limit && used <= limit-more && beside <= limit-more-used && !u.Has(account.Paces) {
		return
	}
	r := account.Refusal{Rank: rank, Code: n.Code, Reason: n.UsedUp}
	switch {
	case more > limit:
		r.TooMuch = n.TooLarge
		d.Add(&r)
	case used > limit-more || beside > limit-more-used:
		if used <= limit-more {
			r.Reason = u.why(of, limit-more-used)
		}
		r.Wait = u.fitsIn(of, limit-more)
		d.Add(&r)
	}
	if n.Window != state.Minute {
		return
	}
	if opens := u.PacedIn(of, more, u.now.Instant); opens > 0 {
		d.Add(&account.Refusal{Rank: rank, Code: n.Code, Reason: n.Pace, Wait: opens})
	}
}

// fitsIn is how long it takes until at most budget of a dimension is used, here and by others, and
// kept for classes.
func (u *usage) fitsIn(of state.Dimension, budget int) int64 {
	wait := u.usedFitsIn(of, budget)
	if u.held != nil && u.held.Parts[of].Amount > 0 {
		p := &u.held.Parts[of]
		left := p.Until - u.now.Instant
		if state.Limits[of].Window == state.Day {
			left = p.Until - u.now.Wall
		}
		sooner := int64(0)
		if p.Amount <= budget {
			sooner = u.usedFitsIn(of, budget-p.Amount)
		}
		if wait = max(left, wait); p.Amount <= budget && sooner < left {
			wait = sooner
		}
	}
	return u.settled(wait, of, budget)
}

// settled returns the exact wait if reserves may hold room for classes. As the calls of a class
// leave the minute, its reserve grows, so no single charge tells the wait. The sum of used and
// held room never grows with time, so a binary search finds it. guess is exact if no such class
// has asked.
func (u *usage) settled(guess int64, of state.Dimension, budget int) int64 {
	if len(u.reserves) == 0 || !u.Has(account.Reserved) || u.fitsAfter(guess, of, budget) && !u.fitsAfter(guess-1, of, budget) {
		return guess
	}
	denied, fits := int64(0), max(guess, u.ask.Span+1)
	for denied+1 < fits {
		if middle := denied + (fits-denied)/2; u.fitsAfter(middle, of, budget) {
			fits = middle
		} else {
			denied = middle
		}
	}
	return fits
}

// fitsAfter reports whether at most budget of a dimension will be used and kept after a wait.
func (u *usage) fitsAfter(wait int64, of state.Dimension, budget int) bool {
	now, ask := account.Now{Instant: u.now.Instant + wait, Wall: u.now.Wall + wait}, *u.ask
	ask.Patience -= wait
	used, beside := u.Used(of, ask.Span, now), 0
	switch held := u.HeldFrom(&ask, u.reserves, now); {
	case held == nil:
	case of == state.InFlight:
		beside = held.Slots
	default:
		beside = held.Parts[of].Amount
	}
	return used <= budget && beside <= budget-used
}

// usedFitsIn is fitsIn for the own usage.
func (u *usage) usedFitsIn(of state.Dimension, budget int) int64 {
	return ownFitsIn(u.Account, of, budget, u.ask.Span, u.now)
}

// ownFitsIn is how long it takes until at most budget of a dimension is used of an account.
func ownFitsIn(a *account.Account, of state.Dimension, budget int, span int64, now account.Now) int64 {
	var last int64
	ok := false
	switch of {
	case state.RPD, state.TPD:
		if _, _, day := a.DayUsed(now.Wall); a.Used(of, span, now) > budget {
			return day.End - now.Wall
		}
	case state.RPM:
		last, ok = a.RequestOver(budget)
	default:
		last, ok = a.TokensOver(state.Limits[of].Tokens, budget)
	}
	if !ok {
		return 0
	}
	// A charge counts up to and including the age of the span.
	return max(last+span+1-now.Instant, 0)
}

// withheld is the reason of a denial by what is kept for processes.
const withheld = "the rest of the quota is kept for processes that may use their share without the store"

// why says why the room that this limiter has left of a limit is not there: others of the account
// use it, or a reserve keeps it for other classes.
func (u *usage) why(of state.Dimension, left int) string {
	switch {
	case u.held.Reported[of].Amount > left:
	case account.Withholds(u.reserves):
		return withheld
	case u.held.Keeps:
		return state.Limits[of].Kept
	}
	return state.Limits[of].External
}

// withLongest adds to the reason of the first limit that of the one that denies for longest.
func withLongest(first, longest string) string {
	if longest == "" {
		return first
	}
	return errtext.Longest(first, "", longest)
}
