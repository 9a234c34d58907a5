//! Who visits what: sites with pages, visitors with a browser and a screen, and visits with a source.
//!
//! Everything about a site, a page or a visitor is drawn from its number and the seed, so it is the
//! same in every hit, and nothing has to be stored.

use crate::random::{Random, Vocabulary};

/// One of `choices`. The first ones are more likely.
pub(super) fn often<'a, T: ?Sized>(choices: &[&'a T], random: &mut Random) -> Option<&'a T> {
    let index = random.skewed(choices.len() as u64);
    usize::try_from(index)
        .ok()
        .and_then(|index| choices.get(index).copied())
}

/// One of `choices` as text.
pub(super) fn word_of<'a>(choices: &[&'a str], random: &mut Random) -> &'a str {
    often(choices, random).unwrap_or("")
}

/// Whether an event of this probability occurs.
pub(super) fn occurs(permille: u64, random: &mut Random) -> bool {
    random.below(1000) < permille
}

/// A number below `bound`, from 1 on, of which each power of two is equally likely: few numbers are
/// very frequent, and most are rare, as with sites and visitors.
pub(super) fn heavy(bound: u64, random: &mut Random) -> u64 {
    let bound = bound.max(2);
    let magnitudes = u64::from(64 - (bound - 1).leading_zeros());
    let low = 1_u64 << random.below(magnitudes);
    let number = low + random.below(low);
    if number < bound {
        number
    } else {
        random.between(1, bound - 1)
    }
}

/// 64 bits for a text (FNV-1a, mixed once more).
pub(super) fn hash(text: &str) -> u64 {
    let folded = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Random::new(folded).bits()
}

/// Text of a language with other letters: each Latin letter becomes a Cyrillic one.
fn cyrillic(text: &str) -> String {
    const LETTERS: &str = "абцдефгхийклмнопярстувщыжз";
    text.chars()
        .map(|letter| match u32::from(letter).checked_sub(97) {
            Some(index @ 0..26) => LETTERS.chars().nth(index as usize).unwrap_or(letter),
            _ => letter,
        })
        .collect()
}

/// Several words.
fn words(count: u64, vocabulary: &Vocabulary, random: &mut Random) -> String {
    let mut text = String::new();
    for index in 0..count {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(vocabulary.word(random));
    }
    text
}

/// A web site.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub number: u64,
    pub address: String,
    pub name: String,
    pub is_cyrillic: bool,
    pub is_https: bool,
    pub is_old_counter: bool,
    pub charset: &'static str,
    pub class: i64,
    pub category: u64,
    pub region: u64,
    pub pages: u64,
    seed: u64,
}

impl Site {
    pub fn new(number: u64, seed: u64, vocabulary: &Vocabulary) -> Self {
        const ENDINGS: [&str; 6] = ["com", "net", "org", "example", "info", "shop"];
        const CHARSETS: [&str; 4] = ["utf-8", "windows-1251", "koi8-r", "iso-8859-1"];
        let seed = Random::new(seed ^ number.wrapping_mul(0x5851_f42d_4c95_7f2d)).bits();
        let mut random = Random::new(seed);
        let name = words(random.between(1, 2), vocabulary, &mut random);
        let is_https = occurs(300, &mut random);
        let scheme = if is_https { "https" } else { "http" };
        let ending = word_of(&ENDINGS, &mut random);
        let pages = random.between(10, 2000);
        Self {
            number,
            address: format!("{scheme}://{}.{ending}/", name.replace(' ', "-")),
            is_cyrillic: occurs(400, &mut random),
            is_old_counter: occurs(50, &mut random),
            charset: word_of(&CHARSETS, &mut random),
            class: i64::from(occurs(200, &mut random)),
            category: random.skewed(15_000),
            region: random.skewed(2000),
            name,
            is_https,
            pages,
            seed,
        }
    }

    /// Address and title of a page.
    pub fn page(&self, number: u64, vocabulary: &Vocabulary) -> (String, String) {
        let mut random = Random::new(self.seed ^ number.wrapping_mul(0x1405_7b7e_f767_814f));
        let path = words(random.between(1, 3), vocabulary, &mut random).replace(' ', "/");
        let address = match random.below(4) {
            0 => format!("{}{path}/{number}.html", self.address),
            1 => format!("{}{path}?id={number}&sort=date", self.address),
            2 => format!("{}{path}/", self.address),
            _ => format!("{}index.php?page={path}&item={number}", self.address),
        };
        let title = words(random.between(3, 9), vocabulary, &mut random);
        let title = format!("{title} - {}", self.name);
        let title = if self.is_cyrillic {
            cyrillic(&title)
        } else {
            title
        };
        (address, title)
    }
}

/// Countries with a language and a time zone in minutes.
const PLACES: [(&str, &str, i64); 8] = [
    ("DE", "de", 60),
    ("RU", "ru", 180),
    ("TR", "tr", 180),
    ("UA", "uk", 120),
    ("US", "en-us", -300),
    ("KZ", "ru", 300),
    ("FR", "fr", 60),
    ("BR", "pt-br", -180),
];
/// Width and height of screens.
const SCREENS: [(u64, u64); 8] = [
    (1920, 1080),
    (1366, 768),
    (1280, 1024),
    (1440, 900),
    (1600, 900),
    (2560, 1440),
    (1024, 768),
    (3840, 2160),
];
const PHONES: [(u64, u64); 4] = [(390, 844), (360, 800), (412, 915), (768, 1024)];

/// A visitor: a person or a robot with one device.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub id: u64,
    pub cookie: u64,
    pub ip: u64,
    pub region: u64,
    pub country: &'static str,
    pub language: &'static str,
    pub zone_minutes: i64,
    pub clock_error: i64,
    pub age: u64,
    pub sex: u64,
    pub income: u64,
    pub interests: u64,
    pub is_robot: bool,
    pub is_mobile: bool,
    pub mobile_brand: u64,
    pub mobile_model: String,
    pub os: u64,
    pub browser: u64,
    pub browser_major: u64,
    pub browser_minor: String,
    pub user_agent: String,
    pub has_flash: bool,
    pub has_player: bool,
    pub has_net: bool,
    pub has_java: bool,
    pub has_script: bool,
    pub has_cookies: bool,
    pub width: u64,
    pub height: u64,
    pub colors: u64,
}

impl Visitor {
    pub fn new(number: u64, seed: u64, vocabulary: &Vocabulary) -> Self {
        let key = number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ seed.rotate_left(32);
        let mut random = Random::new(key);
        let id = random.bits();
        let is_mobile = occurs(250, &mut random);
        let is_robot = occurs(15, &mut random);
        let place = random.skewed(PLACES.len() as u64);
        let &(country, language, zone_minutes) = usize::try_from(place)
            .ok()
            .and_then(|place| PLACES.get(place))
            .unwrap_or(&PLACES[0]);
        let screens: &[(u64, u64)] = if is_mobile { &PHONES } else { &SCREENS };
        let screens: Vec<&(u64, u64)> = screens.iter().collect();
        let &(width, height) = often(&screens, &mut random).unwrap_or(&(0, 0));
        let (os, browser) = (random.skewed(30) + 1, random.skewed(12) + 1);
        let browser_major = 100 - random.skewed(40);
        let browser_minor = format!("{}.{}", random.skewed(10), random.skewed(200));
        let mobile_model = if is_mobile {
            format!("{} {}", vocabulary.word(&mut random), random.between(1, 20))
        } else {
            String::new()
        };
        let user_agent = user_agent(
            is_robot,
            &mobile_model,
            os,
            browser,
            browser_major,
            &browser_minor,
        );
        let knows_person = occurs(400, &mut random);
        let person = |bound, random: &mut Random| {
            if knows_person {
                random.skewed(bound) + 1
            } else {
                0
            }
        };
        Self {
            id,
            cookie: if occurs(950, &mut random) {
                random.bits()
            } else {
                0
            },
            ip: (place << 29) | random.below(1 << 29),
            region: place * 500 + random.skewed(500),
            country,
            language,
            zone_minutes,
            clock_error: if occurs(100, &mut random) {
                i64::try_from(random.skewed(7200)).unwrap_or(0) - 600
            } else {
                0
            },
            age: person(6, &mut random) * 10,
            sex: person(2, &mut random),
            income: person(4, &mut random),
            interests: if knows_person {
                random.below(1 << 15)
            } else {
                0
            },
            is_robot,
            is_mobile,
            mobile_brand: if is_mobile { random.skewed(80) + 1 } else { 0 },
            mobile_model,
            os,
            browser,
            browser_major,
            browser_minor,
            user_agent,
            has_flash: !is_mobile && occurs(600, &mut random),
            has_player: !is_mobile && occurs(150, &mut random),
            has_net: !is_mobile && occurs(80, &mut random),
            has_java: !is_mobile && occurs(700, &mut random),
            has_script: !is_robot,
            has_cookies: occurs(970, &mut random),
            width,
            height,
            colors: if occurs(900, &mut random) { 24 } else { 32 },
        }
    }
}

fn user_agent(
    is_robot: bool,
    mobile_model: &str,
    os: u64,
    browser: u64,
    major: u64,
    minor: &str,
) -> String {
    const SYSTEMS: [&str; 5] = [
        "Windows NT 10.0; Win64; x64",
        "Windows NT 6.1; WOW64",
        "X11; Linux x86_64",
        "Macintosh; Intel Mac OS X 10_15_7",
        "Windows NT 6.3",
    ];
    const ENGINES: [&str; 3] = [
        "AppleWebKit/537.36 (KHTML, like Gecko) Chrome",
        "Gecko/20100101 Firefox",
        "AppleWebKit/605.1.15 (KHTML, like Gecko) Version",
    ];
    let pick = |names: &[&'static str], number: u64| {
        usize::try_from(number % names.len() as u64)
            .ok()
            .and_then(|index| names.get(index).copied())
            .unwrap_or("")
    };
    if is_robot {
        return format!("Mozilla/5.0 (compatible; crawler{browser}/{major}.{minor})");
    }
    let engine = pick(&ENGINES, browser);
    if mobile_model.is_empty() {
        let system = pick(&SYSTEMS, os);
        format!("Mozilla/5.0 ({system}) {engine}/{major}.{minor}")
    } else {
        let release = 8 + os % 7;
        format!(
            "Mozilla/5.0 (Linux; Android {release}; {mobile_model}) {engine}/{major}.{minor} Mobile"
        )
    }
}

/// Where a visit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Direct,
    Link,
    Search,
    Advertisement,
}

/// A visit: a visitor on a site, with the page that was left last.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub id: u64,
    pub visitor: Visitor,
    pub site: Site,
    pub source: Source,
    pub engine: u64,
    pub phrase: String,
    pub referer: String,
    pub campaign: Option<u64>,
    pub hits: u64,
    pub is_new: bool,
    pub is_framed: bool,
    pub window_width: u64,
    pub window_height: u64,
    pub window_name: i64,
    pub opener_name: i64,
    pub history: u64,
}

impl Visit {
    /// A new visit. `rows` determines how many visitors and sites there are.
    pub fn new(rows: u64, seed: u64, vocabulary: &Vocabulary, random: &mut Random) -> Self {
        let visitor = Visitor::new(random.skewed((rows / 4).max(50)), seed, vocabulary);
        let site = Site::new(heavy((rows / 400).max(30), random), seed, vocabulary);
        let source = match random.below(10) {
            0..=2 => Source::Direct,
            3..=4 => Source::Link,
            5..=8 => Source::Search,
            _ => Source::Advertisement,
        };
        let engine = random.skewed(20) + 1;
        let phrase = if source == Source::Search && occurs(600, random) {
            let phrase = words(random.between(1, 6), vocabulary, random);
            if site.is_cyrillic {
                cyrillic(&phrase)
            } else {
                phrase
            }
        } else {
            String::new()
        };
        let referer = match source {
            Source::Direct => String::new(),
            Source::Search => format!(
                "https://search{engine}.example/find?q={}&r={}",
                phrase.replace(' ', "+"),
                random.below(1 << 30)
            ),
            Source::Link | Source::Advertisement => {
                let from = Site::new(heavy((rows / 400).max(30), random), seed, vocabulary);
                from.page(heavy(from.pages, random), vocabulary).0
            }
        };
        let (width, height) = (visitor.width, visitor.height);
        let is_whole = visitor.is_mobile || occurs(500, random);
        let name = |permille, random: &mut Random| {
            if occurs(permille, random) {
                i64::try_from(random.below(1 << 31)).unwrap_or(0)
            } else {
                -1
            }
        };
        Self {
            id: random.bits(),
            source,
            engine,
            phrase,
            referer,
            campaign: (source == Source::Advertisement).then(|| heavy(2000, random)),
            hits: 0,
            is_new: occurs(300, random),
            is_framed: occurs(20, random),
            window_width: if is_whole {
                width
            } else {
                random.between(width / 2, width)
            },
            window_height: height
                - height / 8
                - if is_whole {
                    0
                } else {
                    random.below(height / 4)
                },
            window_name: name(100, random),
            opener_name: name(30, random),
            history: random.skewed(30),
            visitor,
            site,
        }
    }
}
