//! The rows of a web log: hits of a web analytics service, with the number of columns and the kind of
//! contents of `hits` of `ClickBench`, but drawn from a seed.
//!
//! Some hundreds of visits are active at the same time. Each row is a hit of one of them, and rows are in
//! order of time, over 31 days. Visitors and sites have a heavy skew; all that belongs to a
//! visitor, a site or a page is the same in each of its hits. So user agents, titles, addresses, resolutions and
//! regions repeat, hashes and times do not, and most flags and rare attributes are 0, empty or NULL.
//!
//! | column | type | contents |
//! |---|---|---|
//! | `hit_id` | `BIGINT UNSIGNED NOT NULL` | random |
//! | `site_id` | `INT UNSIGNED NOT NULL` | heavy skew |
//! | `event_date` | `DATE NOT NULL` | day of `event_time` |
//! | `event_time` | `DATETIME NOT NULL` | ascending |
//! | `client_time` | `DATETIME NOT NULL` | the same by the visitor's clock |
//! | `time_zone` | `SMALLINT NOT NULL` | minutes, by country |
//! | `user_id` | `BIGINT UNSIGNED NOT NULL` | random for each visitor |
//! | `visit_id` | `BIGINT UNSIGNED NOT NULL` | random for each visit |
//! | `hit_number` | `SMALLINT UNSIGNED NOT NULL` | in the visit |
//! | `cookie_id` | `BIGINT UNSIGNED NOT NULL` | random for each visitor, sometimes 0 |
//! | `is_new_user` | `TINYINT UNSIGNED NOT NULL` | flag |
//! | `is_good` | `TINYINT UNSIGNED NOT NULL` | flag, nearly always 1 |
//! | `is_robot` | `TINYINT UNSIGNED NOT NULL` | flag |
//! | `counter_class` | `TINYINT NOT NULL` | of the site |
//! | `title` | `VARCHAR(255) NOT NULL` | of the page, for some sites in Cyrillic |
//! | `url` | `VARCHAR(1000) NOT NULL` | of the page |
//! | `referer` | `VARCHAR(1000) NOT NULL` | page before, search or other site, or empty |
//! | `original_url` | `VARCHAR(1000) NOT NULL` | mostly empty |
//! | `url_hash` | `BIGINT UNSIGNED NOT NULL` | hash of `url` |
//! | `referer_hash` | `BIGINT UNSIGNED NOT NULL` | hash of `referer`, or 0 |
//! | `url_category` | `SMALLINT UNSIGNED NOT NULL` | of the site |
//! | `referer_category` | `SMALLINT UNSIGNED NOT NULL` | that of the site, if the page before is on it |
//! | `url_region` | `INT UNSIGNED NOT NULL` | of the site |
//! | `referer_region` | `INT UNSIGNED NOT NULL` | that of the site, if the page before is on it |
//! | `charset` | `VARCHAR(20) NOT NULL` | of the site |
//! | `http_status` | `SMALLINT UNSIGNED NOT NULL` | mostly 200 |
//! | `page_parameters` | `VARCHAR(255)` | mostly NULL |
//! | `history_length` | `TINYINT UNSIGNED NOT NULL` | ascending in a visit |
//! | `client_ip` | `INT UNSIGNED NOT NULL` | of the visitor |
//! | `forwarded_ip` | `INT UNSIGNED NOT NULL` | mostly the same |
//! | `region_id` | `INT UNSIGNED NOT NULL` | of the visitor |
//! | `country` | `CHAR(2) NOT NULL` | of the visitor |
//! | `language` | `VARCHAR(5) NOT NULL` | by country |
//! | `age` | `TINYINT UNSIGNED NOT NULL` | of the visitor, 0 if unknown |
//! | `sex` | `TINYINT UNSIGNED NOT NULL` | of the visitor, 0 if unknown |
//! | `income` | `TINYINT UNSIGNED NOT NULL` | of the visitor, 0 if unknown |
//! | `interests` | `SMALLINT UNSIGNED NOT NULL` | bits, 0 if unknown |
//! | `robotness` | `TINYINT UNSIGNED NOT NULL` | mostly 0 |
//! | `user_agent` | `VARCHAR(255) NOT NULL` | of the visitor |
//! | `os` | `TINYINT UNSIGNED NOT NULL` | of the visitor |
//! | `browser` | `TINYINT UNSIGNED NOT NULL` | of the visitor |
//! | `browser_major` | `SMALLINT UNSIGNED NOT NULL` | of the visitor |
//! | `browser_minor` | `VARCHAR(8) NOT NULL` | of the visitor |
//! | `flash_major` | `TINYINT UNSIGNED NOT NULL` | of the visitor, or 0 |
//! | `flash_minor` | `TINYINT UNSIGNED NOT NULL` | of the visitor, or 0 |
//! | `flash_build` | `VARCHAR(8) NOT NULL` | of the visitor, or empty |
//! | `player_major` | `TINYINT UNSIGNED NOT NULL` | mostly 0 |
//! | `player_minor` | `TINYINT UNSIGNED NOT NULL` | mostly 0 |
//! | `player_build` | `INT UNSIGNED NOT NULL` | mostly 0 |
//! | `player_revision` | `SMALLINT UNSIGNED NOT NULL` | mostly 0 |
//! | `net_major` | `TINYINT UNSIGNED NOT NULL` | mostly 0 |
//! | `net_minor` | `TINYINT UNSIGNED NOT NULL` | mostly 0 |
//! | `has_java` | `TINYINT UNSIGNED NOT NULL` | flag of the visitor |
//! | `has_script` | `TINYINT UNSIGNED NOT NULL` | flag of the visitor, mostly 1 |
//! | `has_cookies` | `TINYINT UNSIGNED NOT NULL` | flag of the visitor, mostly 1 |
//! | `is_mobile` | `TINYINT UNSIGNED NOT NULL` | flag of the visitor |
//! | `mobile_brand` | `TINYINT UNSIGNED NOT NULL` | of the visitor, or 0 |
//! | `mobile_model` | `VARCHAR(40) NOT NULL` | of the visitor, or empty |
//! | `screen_width` | `SMALLINT UNSIGNED NOT NULL` | of the visitor |
//! | `screen_height` | `SMALLINT UNSIGNED NOT NULL` | of the visitor |
//! | `screen_colors` | `TINYINT UNSIGNED NOT NULL` | 24 or 32 bits |
//! | `window_width` | `SMALLINT UNSIGNED NOT NULL` | of the visit |
//! | `window_height` | `SMALLINT UNSIGNED NOT NULL` | of the visit |
//! | `window_name` | `INT NOT NULL` | of the visit, mostly -1 |
//! | `opener_name` | `INT NOT NULL` | of the visit, mostly -1 |
//! | `source` | `TINYINT NOT NULL` | -1 within the site, 0 direct, 1 link, 2 search, 3 advertisement |
//! | `search_engine` | `SMALLINT UNSIGNED NOT NULL` | mostly 0 |
//! | `search_phrase` | `VARCHAR(255) NOT NULL` | mostly empty |
//! | `advertising_engine` | `SMALLINT UNSIGNED NOT NULL` | mostly 0 |
//! | `social_network` | `VARCHAR(20)` | mostly NULL |
//! | `social_action` | `VARCHAR(20)` | mostly NULL |
//! | `utm_source` | `VARCHAR(40)` | NULL without an advertisement |
//! | `utm_medium` | `VARCHAR(40)` | NULL without an advertisement |
//! | `utm_campaign` | `VARCHAR(40)` | NULL without an advertisement |
//! | `utm_content` | `VARCHAR(40)` | mostly NULL |
//! | `utm_term` | `VARCHAR(100)` | mostly NULL |
//! | `ad_service` | `VARCHAR(40)` | mostly NULL |
//! | `ad_campaign` | `VARCHAR(40)` | mostly NULL |
//! | `ad_banner` | `VARCHAR(40)` | mostly NULL |
//! | `ad_place` | `VARCHAR(40)` | mostly NULL |
//! | `from_tag` | `VARCHAR(40)` | mostly NULL |
//! | `has_click_id` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_refresh` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_link` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_download` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_event` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_not_bounce` | `TINYINT UNSIGNED NOT NULL` | flag |
//! | `is_parameter` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_counted` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 1 |
//! | `has_fragment` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_old_counter` | `TINYINT UNSIGNED NOT NULL` | flag of the site |
//! | `is_artificial` | `TINYINT UNSIGNED NOT NULL` | flag, mostly 0 |
//! | `is_https` | `TINYINT UNSIGNED NOT NULL` | flag of the site |
//! | `is_framed` | `TINYINT UNSIGNED NOT NULL` | flag of the visit, mostly 0 |
//! | `send_ms` | `INT UNSIGNED NOT NULL` | 0, or random with a skew |
//! | `dns_ms` | `INT UNSIGNED NOT NULL` | 0, or random with a skew |
//! | `connect_ms` | `INT UNSIGNED NOT NULL` | 0, or random with a skew |
//! | `response_ms` | `INT UNSIGNED NOT NULL` | 0, or random with a skew |
//! | `fetch_ms` | `INT UNSIGNED NOT NULL` | 0, or random with a skew |
//! | `goals` | `SMALLINT UNSIGNED NOT NULL` | mostly 0 |
//! | `order_id` | `VARCHAR(20)` | mostly NULL |
//! | `price` | `DECIMAL(12,2) NOT NULL` | mostly 0 |
//! | `currency` | `CHAR(3)` | mostly NULL |
//! | `currency_id` | `SMALLINT UNSIGNED NOT NULL` | mostly 0 |
//! | `page_bytes` | `INT UNSIGNED NOT NULL` | random with a skew |
//!
//! The CREATE TABLE statement is in `bench/space/web_log.py`.

mod visits;

use crate::calendar::{day, timestamp};
use crate::random::{Random, Vocabulary};
use crate::text::RowWriter;
use std::io::{self, Write};
use visits::{Source, Visit, hash, heavy, occurs, word_of};

/// Visits at the same time.
const ACTIVE: u64 = 400;
/// 2026-01-01, in seconds after 1992-01-01.
const FIRST_SECOND: u64 = 12_419 * 86_400;
const MONTH_MS: u64 = 31 * 86_400 * 1000;

/// A hit: what of a row depends on more than its visit.
struct Hit {
    second: u64,
    url: String,
    title: String,
    is_first: bool,
}

/// Writes `rows` rows drawn from `seed`.
///
/// # Errors
/// Errors of the output.
pub fn write<W: Write>(rows: u64, seed: u64, out: &mut RowWriter<W>) -> io::Result<()> {
    let mut random = Random::new(seed);
    let vocabulary = Vocabulary::new(5000);
    let new_visit = |random: &mut Random| Visit::new(rows, seed, &vocabulary, random);
    let mut visits: Vec<Visit> = (0..ACTIVE.min(rows))
        .map(|_| new_visit(&mut random))
        .collect();
    let step_max = 2 * MONTH_MS / rows.max(1);
    let mut elapsed = 0;
    for _ in 0..rows {
        elapsed += random.below(step_max + 1);
        let index = random.below(visits.len() as u64);
        let Some(visit) = usize::try_from(index)
            .ok()
            .and_then(|index| visits.get_mut(index))
        else {
            continue;
        };
        if visit.hits > 0 && occurs(180, &mut random) {
            *visit = new_visit(&mut random);
        }
        visit.hits += 1;
        visit.history = (visit.history + 1).min(255);
        let (url, title) = visit
            .site
            .page(heavy(visit.site.pages, &mut random), &vocabulary);
        let hit = Hit {
            second: FIRST_SECOND + elapsed.min(MONTH_MS - 1) / 1000,
            url,
            title,
            is_first: visit.hits == 1,
        };
        identity(visit, &hit, &mut random, out);
        page(visit, &hit, &mut random, out);
        person(visit, &mut random, out);
        software(visit, out);
        display(visit, out);
        traffic(visit, &hit, &vocabulary, &mut random, out);
        flags(visit, &hit, &mut random, out);
        times(&mut random, out);
        order(&mut random, out);
        out.end_row()?;
        visit.referer = hit.url;
    }
    Ok(())
}

fn flag<W: Write>(value: bool, out: &mut RowWriter<W>) {
    out.number(u64::from(value));
}

fn text_or_null<W: Write>(value: Option<&str>, out: &mut RowWriter<W>) {
    match value {
        Some(value) => out.text(value),
        None => out.null(),
    }
}

fn identity<W: Write>(visit: &Visit, hit: &Hit, random: &mut Random, out: &mut RowWriter<W>) {
    let visitor = &visit.visitor;
    let shift = visitor.zone_minutes * 60 + visitor.clock_error;
    out.number(random.bits());
    out.number(visit.site.number);
    out.text(&day(hit.second));
    out.text(&timestamp(hit.second));
    out.text(&timestamp(hit.second.saturating_add_signed(shift)));
    out.signed(visitor.zone_minutes);
    out.number(visitor.id);
    out.number(visit.id);
    out.number(visit.hits);
    out.number(visitor.cookie);
    flag(visit.is_new, out);
    flag(occurs(998, random), out);
    flag(visitor.is_robot, out);
    out.signed(visit.site.class);
}

fn page<W: Write>(visit: &Visit, hit: &Hit, random: &mut Random, out: &mut RowWriter<W>) {
    const STATUS: [&str; 4] = ["404", "301", "304", "500"];
    const PARAMETERS: [&str; 3] = ["theme=dark", "basket=full", "login=yes"];
    let site = &visit.site;
    out.text(&hit.title);
    out.text(&hit.url);
    out.text(&visit.referer);
    if occurs(30, random) {
        out.text(&format!("{}?from={}", hit.url, random.below(1 << 20)));
    } else {
        out.text("");
    }
    out.number(hash(&hit.url));
    out.number(if visit.referer.is_empty() {
        0
    } else {
        hash(&visit.referer)
    });
    let within = |value: u64| if hit.is_first { 0 } else { value };
    out.number(site.category);
    out.number(within(site.category));
    out.number(site.region);
    out.number(within(site.region));
    out.text(site.charset);
    if occurs(970, random) {
        out.number(200);
    } else {
        out.text(word_of(&STATUS, random));
    }
    let has_parameters = occurs(50, random);
    let parameters = has_parameters.then(|| word_of(&PARAMETERS, random));
    text_or_null(parameters, out);
    out.number(visit.history);
}

fn person<W: Write>(visit: &Visit, random: &mut Random, out: &mut RowWriter<W>) {
    let visitor = &visit.visitor;
    out.number(visitor.ip);
    out.number(if occurs(50, random) {
        random.below(1 << 32)
    } else {
        visitor.ip
    });
    out.number(visitor.region);
    out.text(visitor.country);
    out.text(visitor.language);
    out.number(visitor.age);
    out.number(visitor.sex);
    out.number(visitor.income);
    out.number(visitor.interests);
    out.number(if visitor.is_robot { random.below(4) } else { 0 });
}

fn software<W: Write>(visit: &Visit, out: &mut RowWriter<W>) {
    let visitor = &visit.visitor;
    // Versions follow from the visitor, so they are the same in each hit.
    let version = |present: bool, low: u64, high: u64, shift: u32| {
        if present {
            low + (visitor.id >> shift) % (high - low + 1)
        } else {
            0
        }
    };
    out.text(&visitor.user_agent);
    out.number(visitor.os);
    out.number(visitor.browser);
    out.number(visitor.browser_major);
    out.text(&visitor.browser_minor);
    out.number(version(visitor.has_flash, 9, 32, 3));
    out.number(version(visitor.has_flash, 0, 3, 8));
    if visitor.has_flash {
        out.text(&format!("r{}", version(true, 10, 400, 16)));
    } else {
        out.text("");
    }
    out.number(version(visitor.has_player, 3, 5, 4));
    out.number(version(visitor.has_player, 0, 1, 6));
    out.number(version(visitor.has_player, 10_400, 61_118, 20));
    out.number(version(visitor.has_player, 0, 3, 40));
    out.number(version(visitor.has_net, 2, 4, 5));
    out.number(version(visitor.has_net, 0, 8, 7));
    flag(visitor.has_java, out);
    flag(visitor.has_script, out);
    flag(visitor.has_cookies, out);
    flag(visitor.is_mobile, out);
    out.number(visitor.mobile_brand);
    out.text(&visitor.mobile_model);
}

fn display<W: Write>(visit: &Visit, out: &mut RowWriter<W>) {
    out.number(visit.visitor.width);
    out.number(visit.visitor.height);
    out.number(visit.visitor.colors);
    out.number(visit.window_width);
    out.number(visit.window_height);
    out.signed(visit.window_name);
    out.signed(visit.opener_name);
}

fn traffic<W: Write>(
    visit: &Visit,
    hit: &Hit,
    vocabulary: &Vocabulary,
    random: &mut Random,
    out: &mut RowWriter<W>,
) {
    const MEDIA: [&str; 4] = ["cpc", "banner", "email", "social"];
    const SERVICES: [&str; 3] = ["market", "direct", "partner"];
    const NETWORKS: [&str; 4] = ["friends", "photos", "messages", "videos"];
    const ACTIONS: [&str; 3] = ["like", "share", "comment"];
    let source = match visit.source {
        _ if !hit.is_first => -1,
        Source::Direct => 0,
        Source::Link => 1,
        Source::Search => 2,
        Source::Advertisement => 3,
    };
    out.signed(source);
    out.number(if source == 2 { visit.engine } else { 0 });
    out.text(if source == 2 { &visit.phrase } else { "" });
    out.number(if source == 3 { visit.engine } else { 0 });
    let is_social = occurs(8, random);
    text_or_null(is_social.then(|| word_of(&NETWORKS, random)), out);
    text_or_null(is_social.then(|| word_of(&ACTIONS, random)), out);
    let campaign = visit.campaign.filter(|_| hit.is_first);
    let numbered = |name: &str| campaign.map(|number| format!("{name}-{number}"));
    text_or_null(campaign.map(|_| word_of(&SERVICES, random)), out);
    text_or_null(campaign.map(|_| word_of(&MEDIA, random)), out);
    text_or_null(numbered("spring").as_deref(), out);
    let has_content = occurs(500, random);
    text_or_null(numbered("text").filter(|_| has_content).as_deref(), out);
    let term = campaign.map(|_| format!("{} {}", vocabulary.word(random), vocabulary.word(random)));
    text_or_null(term.as_deref(), out);
    let is_placed = campaign.is_some() && occurs(200, random);
    text_or_null(is_placed.then(|| word_of(&SERVICES, random)), out);
    for name in ["campaign", "banner", "place"] {
        text_or_null(numbered(name).filter(|_| is_placed).as_deref(), out);
    }
    let has_tag = occurs(5, random);
    text_or_null(has_tag.then(|| vocabulary.word(random)), out);
    flag(is_placed, out);
}

fn flags<W: Write>(visit: &Visit, hit: &Hit, random: &mut Random, out: &mut RowWriter<W>) {
    flag(occurs(100, random), out);
    flag(occurs(40, random), out);
    flag(occurs(3, random), out);
    flag(occurs(60, random), out);
    flag(!hit.is_first || occurs(600, random), out);
    flag(occurs(2, random), out);
    flag(occurs(990, random), out);
    flag(occurs(10, random), out);
    flag(visit.site.is_old_counter, out);
    flag(occurs(20, random), out);
    flag(visit.site.is_https, out);
    flag(visit.is_framed, out);
}

/// Times are only measured in some hits.
fn times<W: Write>(random: &mut Random, out: &mut RowWriter<W>) {
    let is_measured = occurs(400, random);
    for bound in [200, 100, 150, 2000, 8000] {
        out.number(if is_measured { random.skewed(bound) } else { 0 });
    }
}

fn order<W: Write>(random: &mut Random, out: &mut RowWriter<W>) {
    let is_order = occurs(4, random);
    out.number(if occurs(30, random) {
        random.skewed(12) + 1
    } else {
        0
    });
    if is_order {
        out.text(&format!("A{:09}", random.below(1_000_000_000)));
        out.decimal(random.skewed(5_000_000) + 100, 2);
        out.text(word_of(&["EUR", "RUB", "USD"], random));
        out.number(random.between(1, 3));
    } else {
        out.null();
        out.decimal(0, 2);
        out.null();
        out.number(0);
    }
    out.number(5_000 + random.skewed(400_000));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Form;
    use std::collections::BTreeMap;

    fn rows(count: u64) -> Vec<Vec<String>> {
        let mut out = RowWriter::new(Vec::new(), Form::Load { separator: b'\t' });
        write(count, 1, &mut out).unwrap();
        let text = String::from_utf8(out.finish().unwrap()).unwrap();
        text.lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// The positions of the columns, from the list above.
    fn columns() -> BTreeMap<&'static str, usize> {
        include_str!("web_log.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `")?.split('`').next())
            .enumerate()
            .map(|(number, name)| (name, number))
            .collect()
    }

    #[test]
    fn the_list_has_the_columns_of_a_row() {
        assert_eq!(columns().len(), 105);
        assert!(rows(300).iter().all(|row| row.len() == 105));
    }

    #[test]
    fn times_ascend_within_the_month() {
        let at = columns();
        let rows = rows(5000);
        let times: Vec<&String> = rows.iter().map(|row| &row[at["event_time"]]).collect();
        assert!(times.is_sorted());
        assert!(times[0].starts_with("2026-01-01") && times[4999].starts_with("2026-01-3"));
    }

    #[test]
    fn rare_attributes_are_mostly_absent() {
        let at = columns();
        let rows = rows(5000);
        let share =
            |name: &str, absent: &str| rows.iter().filter(|row| row[at[name]] == absent).count();
        for (name, absent) in [
            ("order_id", "\\N"),
            ("utm_campaign", "\\N"),
            ("is_download", "0"),
            ("search_phrase", ""),
            ("price", "0.00"),
        ] {
            assert!((4000..5000).contains(&share(name, absent)), "{name}");
        }
    }

    #[test]
    fn few_sites_have_most_hits_and_a_visitor_has_one_browser() {
        let at = columns();
        let rows = rows(8000);
        let mut hits: BTreeMap<&str, usize> = BTreeMap::new();
        let mut agents: BTreeMap<&str, &str> = BTreeMap::new();
        for row in &rows {
            *hits.entry(&row[at["site_id"]]).or_default() += 1;
            let agent = &row[at["user_agent"]];
            assert_eq!(agents.entry(&row[at["user_id"]]).or_insert(agent), agent);
        }
        let mut counts: Vec<usize> = hits.into_values().collect();
        counts.sort_unstable();
        let top: usize = counts.iter().rev().take(5).sum();
        assert!(counts.len() > 20 && top > 2000, "{} {top}", counts.len());
        assert!(
            agents.len() > 500 && agents.len() < 2000,
            "{}",
            agents.len()
        );
    }
}
